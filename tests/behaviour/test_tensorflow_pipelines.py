"""TensorFlow's figures of a pipeline (graphcore/tensorflow, python/ipu/tests/pipelining_test.py: the one with a device mapping)."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tilestep.train import InfeedQueue, OutfeedQueue, Pipeline

FIGURES = [410.01, 730.01, 650.01, 570.01, 890.01]  # and again
MAPPING = [2, 0, 1]


def first(kernel: Any, c: Any, *, a: Any, b: Any) -> Any:
    """A convolution of 1x1 with two channels, and the other half of the element; c is the run's input, and passes along."""
    return jax.lax.conv_general_dilated(a, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + b, c


def second(params: Any, x: Any, c: Any) -> Any:
    return jnp.sum(x) + c


def third(params: Any, x: Any) -> Any:
    return x


def pipeline_of(count: int) -> Pipeline:
    return Pipeline(
        [first, second, third], None, count, pipeline_schedule="interleaved", devices=jax.devices("ipu"), device_mapping=MAPPING
    )


def elements() -> Any:
    """Pairs of pictures of 4x4x2 points that are all 0, 1, 2, 3 or 4, in turn: as a mapping, whose values are keyword arguments."""
    values = itertools.cycle(np.arange(5, dtype=np.float32))
    while True:
        a = np.stack([np.full((4, 4, 2), next(values)) for _ in range(2)])
        yield {"a": a, "b": (a + 10) / 2}


@pytest.mark.slow
def test_the_figures_of_the_device_mapping_test() -> None:
    pipeline, outfeed = pipeline_of(12), OutfeedQueue()
    state = pipeline.init([np.ones((1, 1, 2, 2), np.float32), (), ()])
    pipeline.run(state, InfeedQueue(list(itertools.islice(elements(), 24))), outfeed, inputs=(np.float32(10.01),), repeat_count=2)
    expected = [FIGURES[m % 5] for m in range(24)]
    np.testing.assert_allclose(outfeed.dequeue(), expected, rtol=1e-6)
    assert next(iter(state.params[0].devices())).id == 2


def test_ten_of_them_are_refused() -> None:
    with pytest.raises(ValueError, match="the count of microbatches is 10, which must be a multiple of 3: 9 or 12"):
        pipeline_of(10)
