"""One dimension of the field over which a convolution's window slides: exact counts of kernel elements that meet inputs."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd

import numpy as np

from tilestep.cost.attributes import WindowDimension
from tilestep.cost.splits import Ints, integers
from tilestep.units import ceil_div


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One dimension of the field."""

    inputs: int
    outputs: int
    window: WindowDimension

    @property
    def products(self) -> int:
        """Kernel elements that meet an input, over all outputs: neither padding nor the gaps of a dilated input."""
        return _products(self.inputs, self.outputs, self.window)

    @cached_property
    def taps(self) -> int:
        """Kernel elements that meet an input of an average output, rounded up."""
        return ceil_div(self.products, max(1, self.outputs))

    def reach(self, outputs: Ints, elements: Ints | None = None) -> Ints:
        """Inputs that a run of outputs reads, margins included, with so many neighbouring elements of the window (None: all)."""
        w = self.window
        span = (outputs - 1) * w.stride + ((w.size if elements is None else elements) - 1) * w.dilation + 1
        return np.minimum(self.inputs, -(-span // w.base_dilation))


@lru_cache(maxsize=4096)
def _products(inputs: int, outputs: int, w: WindowDimension) -> int:
    # Where output 0's kernel elements lie in the dilated input.
    start = np.arange(w.size).astype(integers(inputs * w.base_dilation)) * w.dilation - w.pad_low
    first = np.maximum(0, -(start // w.stride))
    last = np.minimum(outputs - 1, ((inputs - 1) * w.base_dilation - start) // w.stride)
    period = w.base_dilation // gcd(w.stride, w.base_dilation)
    count = 0
    for residue in range(period):
        hits = (start + residue * w.stride) % w.base_dilation == 0
        inside = (last - residue) // period - (first - 1 - residue) // period
        count += int(np.where(hits, np.maximum(inside, 0), 0).sum())
    return count


POINT = Axis(inputs=1, outputs=1, window=WindowDimension())
