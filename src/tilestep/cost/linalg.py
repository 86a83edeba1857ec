"""Dense linear algebra that runs as one operation: XLA's own, and LAPACK's custom calls on JAX's CPU backend.

One model for all: a matrix lies on `tiles // matrices` tiles; a sequence of panels, each factored by one tile while
the others wait, sent to all, and followed by an update of the rest. Counts of operations are the textbook ones
(Golub and Van Loan, "Matrix Computations", 4th edition); those of iterations are assumed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod
from types import MappingProxyType
from typing import NamedTuple

from tilestep.cost.dtypes import ARITHMETIC, dtype_assumptions
from tilestep.cost.elementwise.expression import worker_cycles
from tilestep.cost.exchange import share
from tilestep.cost.fallback import fallback
from tilestep.cost.step import StepCost, Supersteps, nothing, step_cost
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import DTYPE_BITS, Work
from tilestep.units import ceil_div

FAMILY = "linear algebra"
_PANELS = (1, 8, 16, 32, 64)
# Real multiply-adds for one of complex numbers.
_COMPLEX_MACS = 4
_UPDATE_EFFICIENCY = 0.5  # assumed: of the matrix unit's rate in blocked updates
_BLOCKED_TEXT = "blocked factorisations reach half of the matrix unit's rate in their updates"


@dataclass(frozen=True, kw_only=True)
class Routine:
    """Operations of a routine on an m x n matrix, r the smaller of m and n, and a result of k columns.

    Multiply-adds = square * m * n * r + other * m * r * k.
    """

    square: float = 0
    other: float = 0
    blocked: bool = True  # updates are matrix products; else matrix-vector products, a panel of one column at a time
    sweeps: int = 1  # the panels are gone through so often
    assumption: str = ""


_LU = Routine(square=1 / 3)
_QR = Routine(square=2 / 3)
_ITERATIVE = "eigenvalues and singular values are found in the operations of the usual QR or divide-and-conquer iteration, two per value"
_SYMMETRIC = Routine(square=4.5, blocked=False, sweeps=2, assumption=_ITERATIVE)  # 4/3 n^3 to tridiagonal, and the vectors: 9 n^3 flops
_GENERAL = Routine(square=12.5, blocked=False, sweeps=3, assumption=_ITERATIVE)  # 25 n^3 flops
_SINGULAR = Routine(square=11, blocked=False, sweeps=2, assumption=_ITERATIVE)  # 22 n^3 flops with both sets of vectors
_TRIDIAGONAL = "tridiagonal systems are eliminated row by row, each by one worker, or by cyclic reduction over all tiles"

ROUTINES: Mapping[str, Routine] = MappingProxyType(
    {
        "potrf": Routine(square=1 / 6),
        "getrf": _LU,
        "geqrf": _QR,
        "geqp3": Routine(square=2 / 3, blocked=False),
        "orgqr": _QR,
        "ungqr": _QR,
        "ormqr": Routine(other=2),
        "unmqr": Routine(other=2),
        "trsm": Routine(other=1 / 2),
        "gesdd": _SINGULAR,
        "gesvd": _SINGULAR,
        "syevd": _SYMMETRIC,
        "heevd": _SYMMETRIC,
        "geev": _GENERAL,
        "gees": _GENERAL,
        "gehrd": Routine(square=5 / 3, blocked=False),
        "sytrd": Routine(square=2 / 3, blocked=False),
        "hetrd": Routine(square=2 / 3, blocked=False),
    }
)
LAPACK_TARGETS: Mapping[str, str] = MappingProxyType(
    {f"custom-call:lapack_{prefix}{name}_ffi": name for name in ROUTINES for prefix in "sdcz"}
)


def lapack(work: Work, ipu: IpuSpec) -> StepCost:
    """A LAPACK custom call on its first operand; roughly bounded if a program's own foreign call hands over no matrix."""
    if not work.operands or not work.results or len(work.operands[0].dims) < 2:
        return fallback(work, ipu)
    return _priced(work, ROUTINES[LAPACK_TARGETS[work.opcode]], ipu)


def cholesky(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `cholesky`."""
    return _priced(work, ROUTINES["potrf"], ipu)


def triangular_solve(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `triangular-solve`: the right-hand sides are independent, the rows of the triangle follow each other."""
    return _priced(work, ROUTINES["trsm"], ipu)


def tridiagonal(work: Work, ipu: IpuSpec) -> StepCost:
    """Tridiagonal systems (LAPACK gtsv, and JAX's perturbed variant), by the cheaper of two ways.

    Elimination: one system per worker, eight operations per element. Cyclic reduction (Hockney 1965), in parallel: in each of
    log2 n rounds every row, wherever it lies, is combined with the two at twice the last distance, at the price of a row of the other.
    """
    right = max((*work.operands, *work.results), key=lambda array: (len(array.dims), array.size))  # diagonals have a dimension less
    if right.size == 0:
        return nothing(FAMILY)
    rows = right.dims[-2] if len(right.dims) > 1 else right.size
    how = ARITHMETIC[right.dtype]
    systems = ceil_div(ceil_div(right.size, rows), ipu.num_tiles)
    workers = ipu.tile.worker_contexts
    divide = 10 * how.emulation * (_COMPLEX_MACS if how.is_complex else 1)  # bundles: poplibs' float division, and the rest beside it
    row_bytes = 4 * DTYPE_BITS[right.dtype] // 8  # three diagonals and the right-hand side
    assumptions = (_TRIDIAGONAL, *dtype_assumptions(right.dtype))
    eliminated = step_cost(
        ipu,
        family=FAMILY,
        compute_cycles=worker_cycles(2 * divide * rows * ceil_div(systems, workers), ipu),
        exchange_bytes=systems * rows * row_bytes,
        temporary_tile_bytes=systems * rows * row_bytes,
        flops=8 * right.size,
        assumptions=assumptions,
    )
    rounds, own = max(1, (rows - 1).bit_length()), share(right.size, ipu)
    reduced = step_cost(
        ipu,
        family=FAMILY,
        compute_cycles=rounds * worker_cycles(2 * divide * ceil_div(own, workers), ipu),
        exchange_bytes=rounds * 2 * own * row_bytes,
        supersteps=Supersteps(count=rounds, syncs=rounds),
        temporary_tile_bytes=2 * own * row_bytes,
        flops=8 * right.size * rounds,
        assumptions=assumptions,
    )
    return min(eliminated, reduced, key=lambda cost: cost.cycles)


def _priced(work: Work, routine: Routine, ipu: IpuSpec) -> StepCost:
    matrix, result = work.operands[0], work.results[0]
    if matrix.size == 0 or result.size == 0:
        return nothing(FAMILY)
    rows, width = matrix.dims[-2:]
    matrices = prod(matrix.dims[:-2])
    columns = ceil_div(result.size, matrices * rows)
    return _factored(_Matrices(matrices, rows, width, columns, matrix.dtype), routine, ipu)


class _Matrices(NamedTuple):
    """So many matrices, and columns that are solved for with each of them."""

    count: int
    rows: int
    width: int
    columns: int
    dtype: str


@lru_cache(maxsize=1024)
def _factored(matrices: _Matrices, routine: Routine, ipu: IpuSpec) -> StepCost:
    """The cheapest number of tiles per matrix, a power of two, and width of panel, of those that are tried."""
    panels = _PANELS if routine.blocked else (1,)
    counts = [1 << power for power in range(ipu.num_tiles.bit_length())]
    found = [_factored_by(matrices, routine, ipu, panel=panel, tiles=tiles) for panel in panels for tiles in counts]
    return min(found, key=lambda cost: cost.cycles)


def _factored_by(matrices: _Matrices, routine: Routine, ipu: IpuSpec, *, panel: int, tiles: int) -> StepCost:
    """Each matrix on `tiles` tiles, in panels of `panel` columns."""
    count, rows, width, columns, dtype = matrices
    short = min(rows, width)
    macs = ceil(routine.square * rows * width * short + routine.other * rows * short * columns)
    how = ARITHMETIC[dtype]
    real = _COMPLEX_MACS if how.is_complex else 1
    vector_macs = how.per_vector / how.emulation / real  # per cycle: a bundle a cycle, whichever worker issues it
    matrix_macs = ipu.macs_per_cycle_float * _UPDATE_EFFICIENCY / real if how.matrix_unit else vector_macs
    element_bytes = DTYPE_BITS[dtype] // 8
    rounds = ceil_div(count, ipu.num_tiles // tiles)
    panels = ceil_div(short, panel) * routine.sweeps
    update = macs / tiles / (matrix_macs if panel > 1 else vector_macs)
    alone = panels * worker_cycles(ceil(panel**3 / 3 / vector_macs / ipu.tile.worker_contexts), ipu)
    # Every tile receives the factored block of each panel, and its part of the panel's column and rows.
    sent = panels * panel * (panel + ceil_div(rows + columns, tiles)) * element_bytes if tiles > 1 else 0
    steps = 2 * panels if tiles > 1 else 1
    sentences = (_BLOCKED_TEXT if routine.blocked else "", routine.assumption, *dtype_assumptions(dtype))
    return step_cost(
        ipu,
        family=FAMILY,
        compute_cycles=rounds * (update + alone),
        exchange_bytes=rounds * sent,
        supersteps=Supersteps(count=rounds * steps, syncs=rounds * steps if tiles > 1 else 0),
        temporary_tile_bytes=panel * (panel + ceil_div(rows + columns, tiles)) * element_bytes,
        flops=2 * macs * count * real,
        assumptions=tuple(sentence for sentence in sentences if sentence),
    )
