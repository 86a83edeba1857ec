"""The methods by which a tile computes its part of a convolution, and the search for the cheapest cut of each.

- matrix unit, kernel element by kernel element (AMP, poplibs' n x 1 vertex), groups of few channels also combined to fill it;
- matrix unit, windows of four elements (SLIC): halves, few channels, no dilation;
- vector unit: dot products (HMAC), and multiply-adds of several groups side by side (VMAC: halves, one channel).

Names and conditions follow poplibs@7eac0f26 lib/poplin/ConvVertexType.cpp and ConvModel.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilestep.cost.dtypes import ARITHMETIC, VECTOR_BYTES
from tilestep.cost.exchange import TILES_PER_BUS
from tilestep.cost.products.amp import amp_nx1, amp_nx1_at_least
from tilestep.cost.products.mac import (
    VERTICAL_GROUPS,
    WIDE_VERTICAL_GROUPS,
    VectorUnit,
    horizontal_mac,
    horizontal_mac_at_least,
    vertical_mac,
    vertical_mac_at_least,
)
from tilestep.cost.products.matrix_unit import MatrixUnit, of_rows, takes_float8
from tilestep.cost.products.slic import LONGEST_STRIDE, WINDOW, slic, slic_at_least, slic_shapes
from tilestep.cost.splits import Ints, ceil_divide, cuts, integers
from tilestep.machine.spec import IpuSpec
from tilestep.options import PlanOptions
from tilestep.plan.products.field import POINT, Axis
from tilestep.plan.products.matmul import COMPLEX_PRODUCTS, computes_in, partial_bytes, sent_bytes, unit_of, vectors_of
from tilestep.plan.products.partition import Blocks, Candidates, PartitionPlan, Types, cheapest, footprint_of, held
from tilestep.plan.products.work_lists import LIST_BYTES, RUN_BYTES, by_element_bytes
from tilestep.program.work import DTYPE_BITS
from tilestep.units import ceil_div

FAMILY = "convolution"
NAMES = ("groups", "batch", "rows", "columns", "kernel", "in channels", "out channels")
_SLIDING_BUFFER_BYTES = 200  # beside the buffer itself: addConvTempMemoryEstimate in poplibs' ConvModel.cpp
_KERNEL_ROWS_PER_BLOCK = (2, 4)
_COMBINED = {"half": 16, "float": 8}  # channels that groups of one, or two halves, are combined to


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """`groups` convolutions side by side; channels are those of one group."""

    groups: int
    batch: int
    field: tuple[Axis, ...]
    in_channels: int
    out_channels: int
    left: str  # dtypes
    right: str
    result: str
    left_resident: bool = False
    right_resident: bool = False

    @cached_property
    def taps(self) -> int:
        """Kernel elements that meet an input of an average output."""
        return prod(axis.taps for axis in self.field)

    @property
    def flops(self) -> int:
        """Two per multiply-add with an input that is there; complex ones count as four real ones."""
        real = COMPLEX_PRODUCTS if ARITHMETIC[self.result].is_complex else 1
        return 2 * real * self.groups * self.batch * self.in_channels * self.out_channels * prod(axis.products for axis in self.field)

    @property
    def plane(self) -> tuple[tuple[Axis, ...], Axis, Axis]:
        """The dimensions before the last two, which go with the batch; rows; columns."""
        *outer, rows, columns = (POINT, POINT, *self.field)
        return tuple(outer[2:]), rows, columns

    def combined(self, factor: int) -> Convolution:
        """The same with so many groups made one, whose kernel has zeros where they do not belong together."""
        return replace(
            self,
            groups=ceil_div(self.groups, factor),
            in_channels=factor * self.in_channels,
            out_channels=factor * self.out_channels,
        )


@dataclass(frozen=True, kw_only=True)
class TileWork:
    """[candidates] the work of the fullest tile."""

    groups: Ints  # in the method's grains, like the channels in blocks
    rows: Ints  # outputs', batch included
    row_length: Ints
    kernel_rows: Ints  # those of an average output that meet an input
    taps: Ints  # likewise, on all rows of the kernel
    windows: Ints  # four elements each, along a row of the kernel
    in_channels: Ints
    in_blocks: Ints
    out_channels: Ints
    out_blocks: Ints

    def take(self, chosen: Ints) -> TileWork:
        """Some of the candidates."""
        return TileWork(**{name: values[chosen] for name, values in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class ConvMethod:
    """One way to compute on a tile; the functions are of one tile's work, in cycles."""

    name: str
    problem: Convolution  # as the method sees it
    compute: Callable[[TileWork], Ints]
    compute_at_least: Callable[[TileWork], Ints]  # at most proportional to each part of the work
    partial_bytes: int
    group_grain: int = 1
    in_grain: int = 1
    out_grain: int = 1
    kernel_grain: int = 1  # rows of the kernel that are worked on at once: it is padded to whole ones
    one_block: bool = False  # a tile holds one grain of input and of output channels
    regrouped: bool = False
    one_channel: bool = False  # results of one channel after the other are written, which lie apart
    pads_field: bool = False  # zeros around the field are written
    float8: bool = False  # the unit takes 8-bit floats as they are

    @property
    def padded(self) -> bool:
        """Whether the left operand is padded."""
        around = self.pads_field and any(axis.window.pad_low > 0 or axis.window.pad_high > 0 for axis in self.problem.field)
        return around or self.problem.in_channels % self.in_grain > 0

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that are cut, in the order of `NAMES`."""
        problem = self.problem
        outer, rows, columns = problem.plane
        return (
            ceil_div(problem.groups, self.group_grain),
            problem.batch * prod(axis.outputs for axis in outer),
            rows.outputs,
            columns.outputs,
            _cut_axis(rows, columns).window.size,
            ceil_div(problem.in_channels, self.in_grain),
            ceil_div(problem.out_channels, self.out_grain),
        )

    def work(self, parts: tuple[Ints, ...]) -> TileWork:
        """Of a tile that holds so much of each of the `sizes`."""
        groups, batch, y, x, kernel, in_blocks, out_blocks = parts
        problem = self.problem
        outer, rows, columns = problem.plane
        cut = _cut_axis(rows, columns)
        outer_taps, outer_size = prod(axis.taps for axis in outer), prod(axis.window.size for axis in outer)
        cut_taps = ceil_divide(cut.taps * kernel, cut.window.size)
        by_rows = cut is rows
        kernel_rows = outer_taps * (cut_taps if by_rows else np.full_like(kernel, rows.taps))
        width = np.full_like(kernel, columns.window.size) if by_rows else kernel
        height = kernel if by_rows else np.full_like(kernel, rows.window.size)
        return TileWork(
            groups=groups,
            rows=batch * y,
            row_length=x,
            kernel_rows=kernel_rows,
            taps=kernel_rows * (columns.taps if by_rows else cut_taps),
            windows=outer_size * height * ceil_divide(width, WINDOW),
            in_channels=np.minimum(in_blocks * self.in_grain, problem.in_channels),
            in_blocks=in_blocks,
            out_channels=np.minimum(out_blocks * self.out_grain, problem.out_channels),
            out_blocks=out_blocks,
        )

    def at_least_on(self, tiles: int) -> int:
        """Cycles that no cut over so many tiles can be below."""
        whole = self.work(tuple(np.array([size], dtype=object) for size in self.sizes))
        return int(self.compute_at_least(whole)[0]) // tiles


def methods(problem: Convolution, ipu: IpuSpec, options: PlanOptions) -> Iterator[ConvMethod]:
    """All that can compute a convolution, the most likely best first."""
    dtype = computes_in(problem.left, problem.right)
    how = ARITHMETIC[dtype]
    float8 = takes_float8(ipu, problem.left, problem.right)
    if float8:
        options = replace(options, partials_type="half")  # the only sums of 8-bit floats
    if float8 or how.matrix_unit:
        unit = unit_of(ipu, "float8" if float8 else how.unit, options)
        yield _by_element("matrix unit", problem, unit, dtype)
        if not float8:
            yield from _by_rows(problem, unit, dtype)
        channels = _COMBINED["half" if how.unit == "half" else "float"]
        if not float8 and problem.in_channels in ((1, 2) if how.unit == "half" else (1,)):
            yield _by_element("matrix unit, groups combined", problem.combined(channels // problem.in_channels), unit, dtype)
        if not how.is_complex and slides(problem):
            for side, each in slic_shapes(unit):
                yield _by_window(problem, unit, side, each)
    vectors = vectors_of(ipu, dtype, options)
    yield _dot_products(problem, vectors, dtype)
    if vectors.halves and problem.out_channels == 1:
        for side in (VERTICAL_GROUPS, *(WIDE_VERTICAL_GROUPS if vectors.half_partials else ())):
            yield _side_by_side(problem, vectors, side)


def slides(problem: Convolution) -> bool:
    """Whether windows of four elements can slide over the rows: addSLICConstraints in poplibs' ConvModel.cpp."""
    windows = [axis.window for axis in problem.field]
    plain = all(window.dilation == 1 and window.base_dilation == 1 for window in windows)
    return plain and bool(windows) and windows[-1].stride <= LONGEST_STRIDE


def _by_rows(problem: Convolution, unit: MatrixUnit, dtype: str) -> Iterator[ConvMethod]:
    """Two or four rows of the kernel in one block, where that makes fewer blocks: where channels are few, or a few more than a block's."""
    rows = problem.plane[1].window.size
    fewest = rows * ceil_div(problem.in_channels, unit.in_channels)
    for together in _KERNEL_ROWS_PER_BLOCK:
        fewer = of_rows(unit, together)
        blocks = ceil_div(rows, together) * ceil_div(problem.in_channels, fewer.in_channels)
        if blocks < fewest:
            fewest = blocks
            method = _by_element(f"matrix unit, {together} kernel rows together", problem, fewer, dtype)
            yield replace(method, regrouped=unit.units != unit.in_channels, kernel_grain=together)


def _by_element(name: str, problem: Convolution, unit: MatrixUnit, dtype: str) -> ConvMethod:
    real = COMPLEX_PRODUCTS if ARITHMETIC[dtype].is_complex else 1

    def compute(work: TileWork) -> Ints:
        blocks = ceil_divide(work.kernel_rows, unit.kernel_rows)
        taps = blocks * (work.taps // np.maximum(work.kernel_rows, 1))
        return real * amp_nx1(work.rows, work.row_length, blocks, taps, work.in_blocks, work.out_blocks, work.groups, unit)

    def at_least(work: TileWork) -> Ints:
        blocks = work.groups * work.in_blocks * work.out_blocks * work.taps // unit.kernel_rows
        return real * amp_nx1_at_least(work.rows * work.row_length, blocks, unit)

    return ConvMethod(
        name=name,
        problem=problem,
        compute=compute,
        compute_at_least=at_least,
        partial_bytes=partial_bytes(unit.partials == "half", dtype),
        in_grain=unit.in_channels,
        out_grain=unit.units,
        regrouped=unit.units != unit.in_channels,
        float8=unit.operands == "float8",
    )


def _by_window(problem: Convolution, unit: MatrixUnit, side: int, channels: int) -> ConvMethod:
    stride = problem.field[-1].window.stride
    sized = partial(slic, side=side, stride=stride, unit=unit)
    bounded = partial(slic_at_least, side=side, stride=stride, unit=unit)
    return ConvMethod(
        name=f"sliding window, {side} x {channels}",
        problem=problem,
        compute=lambda work: sized(work.rows, work.row_length, work.windows, work.groups * work.in_blocks * work.out_blocks),
        compute_at_least=lambda work: bounded(work.rows * work.row_length, work.windows, work.groups * work.in_blocks * work.out_blocks),
        partial_bytes=2 if unit.partials == "half" else 4,
        group_grain=side,
        in_grain=channels,
        out_grain=channels,
        one_block=True,
        pads_field=True,
        float8=unit.operands == "float8",
    )


def _dot_products(problem: Convolution, unit: VectorUnit, dtype: str) -> ConvMethod:
    return ConvMethod(
        name="dot products",
        problem=problem,
        compute=lambda work: horizontal_mac(work.rows, work.row_length, work.taps, work.in_channels, work.out_channels, work.groups, unit),
        compute_at_least=lambda work: horizontal_mac_at_least(
            work.rows * work.row_length, work.taps, work.in_channels, work.groups * work.out_channels, unit
        ),
        partial_bytes=partial_bytes(unit.half_partials, dtype),
        one_channel=ARITHMETIC[dtype].matrix_unit,  # whose readers want groups of channels
    )


def _side_by_side(problem: Convolution, unit: VectorUnit, side: int) -> ConvMethod:
    width = problem.plane[2].window.size
    return ConvMethod(
        name=f"multiply-adds side by side, {side}",
        problem=problem,
        compute=lambda work: vertical_mac(work.rows * work.row_length, work.kernel_rows, width, work.in_channels, work.groups, side, unit),
        compute_at_least=lambda work: vertical_mac_at_least(work.rows * work.row_length, work.kernel_rows, width, work.groups, side),
        partial_bytes=2 if unit.half_partials else 4,
        group_grain=side,
    )


def _cut_axis(rows: Axis, columns: Axis) -> Axis:
    """The dimension of the kernel that is cut over tiles: its rows, or its columns if it has one row."""
    return rows if rows.window.size > 1 else columns


WORK_LISTS_SHARE_OF_ROOM = 1 / 8  # assumed


def search(
    method: ConvMethod, ipu: IpuSpec, options: PlanOptions, *, flops: int, at_most: int | None, room: float = math.inf
) -> PartitionPlan | None:
    """The cheapest cut by groups, batch, rows, columns, kernel and channels.

    Args: room: the memory that it may take, as a proportion of a tile's.
    Returns: None if there is none, or none below `at_most` cycles.
    """
    problem, sizes = method.problem, method.sizes
    tried: dict[int, tuple[int, ...]] = {}
    if method.one_block:
        if sizes[5] * sizes[6] > ipu.num_tiles:
            return None
        tried = {5: (sizes[5],), 6: (sizes[6], sizes[6] + sizes[6] % TILES_PER_BUS)}
    if at_most is not None and method.at_least_on(ipu.num_tiles) > at_most:
        return None
    # More parts of the out channels only add to the bytes that are sent of a resident input.
    greedy = None if problem.left_resident or method.one_block else 6
    field, window = prod(axis.inputs for axis in problem.field), prod(axis.window.size for axis in problem.field)
    read, weights = (problem.groups * problem.in_channels * size for size in (problem.batch * field, window * problem.out_channels))
    cut = cuts(sizes, ipu.num_tiles, tried=tried, even=6, greedy=greedy, dtype=integers(max(flops, read * window), read, weights))
    if not len(cut.tiles):
        return None
    work = method.work(cut.parts)
    outer, rows, columns = problem.plane
    batch, y, x, kernel = cut.parts[1:5]
    groups = np.minimum(work.groups * method.group_grain, problem.groups)
    kernel = ceil_divide(kernel, method.kernel_grain) * method.kernel_grain
    of_cut = (kernel, None) if _cut_axis(rows, columns) is rows else (None, kernel)
    read = batch * prod(axis.window.size for axis in outer) * rows.reach(y, of_cut[0]) * columns.reach(x, of_cut[1])
    left_elements = groups * read * work.in_channels
    kernels = prod(axis.window.size for axis in problem.field) // sizes[4] * kernel
    right_elements = groups * kernels * work.in_channels * work.out_channels
    positions_split = cut.splits[1] * cut.splits[2] * cut.splits[3]
    blocks = Blocks(
        left_elements=left_elements,
        right_elements=right_elements,
        left_bytes=sent_bytes(left_elements, problem.left, problem.left_resident, cut.splits[6]),
        right_bytes=sent_bytes(right_elements, problem.right, problem.right_resident, positions_split),
        left_shared=cut.splits[6] % TILES_PER_BUS == 0,
        outputs=groups * work.rows * work.row_length * work.out_channels,
        depth=cut.splits[4] * cut.splits[5],
        tiles=cut.tiles,
        splits=cut.splits,
    )
    candidates = Candidates(
        method=method.name,
        names=NAMES,
        blocks=blocks,
        compute_at_least=method.compute_at_least(work),
        compute=lambda chosen: method.compute(work.take(chosen)),
        allowed=_fits(method, blocks, work, batch, room * ipu.tile.sram_bytes, ipu.tile.worker_contexts),
    )
    plan = cheapest(
        candidates,
        Types(
            left=problem.left,
            right=problem.right,
            result=problem.result,
            partial_bytes=method.partial_bytes,
            padded=method.padded,
            regrouped=method.regrouped or problem.out_channels % method.out_grain > 0 or (method.one_channel and problem.out_channels > 1),
            run_bytes=min(VECTOR_BYTES, max(1, DTYPE_BITS[problem.result] // 8)) if method.one_channel else VECTOR_BYTES,
            float8=method.float8,
        ),
        family=FAMILY,
        flops=flops,
        ipu=ipu,
        options=options,
        at_most=at_most,
    )
    if plan is None:
        return None
    footprint = replace(footprint_of(plan.cost), list_bytes=_list_bytes(method, dict(plan.splits), ipu))
    splits = dict(plan.splits)
    weights = held(
        plan.block_elements[1],
        problem.right,
        grain=method.group_grain * method.in_grain * method.out_grain,
        sharers=splits["batch"] * splits["rows"] * splits["columns"],
        weights_of=plan.tiles,
    )
    return replace(plan, cost=replace(plan.cost, footprint=footprint, held=(None, weights)))


def _fits(method: ConvMethod, blocks: Blocks, work: TileWork, batch: Ints, room_bytes: float, workers: int) -> NDArray[np.bool_]:
    """Whether a block's operands, its partial results and its lists of work fit into so much memory, if need be in serial parts.

    Parts are those of the output channels, the input channels, or the batch (the output channels where operands are swapped), never of the
    field. Partial results are counted as the unit writes them, padded. Source: poplibs@7eac0f26 lib/poplin/ConvModel.cpp
    (addConvTempMemoryEstimate, addPartialsPerTile, and constructModel, whose serial splits are of channels).
    """
    problem = method.problem
    left = blocks.left_elements * DTYPE_BITS[problem.left] // 8
    right = blocks.right_elements * DTYPE_BITS[problem.right] // 8
    sums = work.groups * method.group_grain * work.rows * work.row_length * work.out_blocks * method.out_grain * method.partial_bytes
    if method.one_block:  # windows slide between two buffers, of which one holds a block of groups
        sums = sums + sums // work.groups + _SLIDING_BUFFER_BYTES
    by_outputs = left + (right + sums) // work.out_blocks
    by_inputs = (left + right) // (work.in_blocks if method.in_grain > 1 else 1) + sums  # the vector unit has all channels in one group
    by_batch = (left + sums) // batch + right
    # Lists stay on the tile beside those of all other convolutions. Where a gradient's field is its kernel they could be larger than the
    # temporaries. poplibs does not count them; the share that they may have is assumed.
    lists = (work.windows if method.one_block else work.taps) * (LIST_BYTES * workers + RUN_BYTES * np.maximum(work.rows, workers))
    return (np.minimum(np.minimum(by_outputs, by_inputs), by_batch) <= room_bytes) & (lists <= room_bytes * WORK_LISTS_SHARE_OF_ROOM)


def _list_bytes(method: ConvMethod, splits: Mapping[str, int], ipu: IpuSpec) -> int:
    """Pointers and lists of work of the fullest tile's vertex."""
    parts = tuple(np.array([ceil_div(size, splits[name])], dtype=object) for size, name in zip(method.sizes, NAMES, strict=True))
    work = method.work(parts)
    by_blocks = method.in_grain > 1  # else the vector unit goes over all channels of a tile as one group
    return by_element_bytes(
        int(work.groups[0]),
        int(work.in_blocks[0]) if by_blocks else 1,
        int(work.out_blocks[0]) if by_blocks else 1,
        elements=int(work.windows[0] if method.one_block else work.taps[0]),
        rows=int(work.rows[0]),
        row_length=int(work.row_length[0]),
        workers=ipu.tile.worker_contexts,
    )
