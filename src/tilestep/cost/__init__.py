"""Cost of one operation on one IPU: pure functions of a machine's figures and the operation's shapes and dtypes.

`estimate` prices any single operation, `elementwise_fusion` a fused expression. `tilestep.plan` plans matmuls and convolutions.
Formulas and sources: docs/reference/cost-model.md, section Estimators.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilestep.cost.collective import collective_compute_cycles as collective_compute_cycles
from tilestep.cost.copy import broadcast, copy, moved, pad, reverse, transpose
from tilestep.cost.copy import relaid as relaid
from tilestep.cost.elementwise.expression import elementwise, map_
from tilestep.cost.elementwise.expression import elementwise_fusion as elementwise_fusion
from tilestep.cost.fallback import fallback as fallback
from tilestep.cost.fourier import fft
from tilestep.cost.gather import MEMORY_PROPORTION, dynamic_slice, dynamic_update_slice, gather, scatter, sparse_dense
from tilestep.cost.linalg import LAPACK_TARGETS, cholesky, lapack, triangular_solve, tridiagonal
from tilestep.cost.opcodes import COLLECTIVES as COLLECTIVES
from tilestep.cost.opcodes import CONTROL_FLOW as CONTROL_FLOW
from tilestep.cost.opcodes import ELEMENTWISE as ELEMENTWISE
from tilestep.cost.opcodes import FREE as FREE
from tilestep.cost.opcodes import HOST_TRANSFERS as HOST_TRANSFERS
from tilestep.cost.opcodes import PLANNED as PLANNED
from tilestep.cost.random import rng, rng_bit_generator, rng_state
from tilestep.cost.reductions.normalise import batch_norm
from tilestep.cost.reductions.reduce import reduce, scan
from tilestep.cost.reductions.windows import reduce_window, select_and_scatter
from tilestep.cost.sort import sort, top_k
from tilestep.cost.step import StepCost as StepCost
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import Work

Estimator = Callable[[Work, IpuSpec], StepCost]
"""Prices one operation on one IPU."""

ESTIMATORS: Mapping[str, Estimator] = MappingProxyType(
    {
        **dict.fromkeys(ELEMENTWISE, elementwise),
        "copy": copy,
        "copy-start": copy,
        "map": map_,
        "slice": moved,
        "concatenate": moved,
        "dynamic-reshape": moved,
        "pad": pad,
        "broadcast": broadcast,
        "transpose": transpose,
        "reverse": reverse,
        "dynamic-slice": dynamic_slice,
        "dynamic-update-slice": dynamic_update_slice,
        "gather": gather,
        "scatter": scatter,
        "reduce": reduce,
        "scan": scan,
        "reduce-window": reduce_window,
        "select-and-scatter": select_and_scatter,
        "batch-norm-training": batch_norm,
        "batch-norm-inference": batch_norm,
        "batch-norm-grad": batch_norm,
        "sort": sort,
        "topk": top_k,
        "custom-call:TopK": top_k,
        "rng": rng,
        "rng-bit-generator": rng_bit_generator,
        "rng-get-and-update-state": rng_state,
        "fft": fft,
        "cholesky": cholesky,
        "triangular-solve": triangular_solve,
        **dict.fromkeys(LAPACK_TARGETS, lapack),
        **dict.fromkeys((f"custom-call:lapack_{prefix}gtsv_ffi" for prefix in "sdcz"), tridiagonal),
        "custom-call:tridiagonal_solve_perturbed_ffi": tridiagonal,
        "custom-call:cpu_csr_sparse_dense_ffi": sparse_dense,
    }
)
"""HLO opcode, or 'custom-call:<target>', to its estimator."""


def estimate(work: Work, ipu: IpuSpec, memory_proportion: float = MEMORY_PROPORTION) -> StepCost:
    """Cost of one operation that is neither free, planned, a collective nor control flow.

    Args:
        work: the operation, with shapes and dtypes of its operands and results on one IPU.
        ipu: the IPU that runs it, without its I/O tiles.
        memory_proportion: share of a tile's memory, 0 to 1, that the temporaries of a look-up may take.

    Returns:
        Cycles and bytes of the busiest tile. An operation without an estimator gets the price of `fallback`.

    Source:
        docs/reference/cost-model.md, section Estimators, names the source of each estimator.
    """
    if work.opcode in ("gather", "scatter"):
        return (gather if work.opcode == "gather" else scatter)(work, ipu, memory_proportion)
    return ESTIMATORS.get(work.opcode, fallback)(work, ipu)
