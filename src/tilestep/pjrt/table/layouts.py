"""The layouts extension, through which JAX asks for the order of an array's dimensions in memory. A layout is sent as text: '{1,0}'."""

import functools
from collections.abc import Sequence

from tilestep.pjrt import _native
from tilestep.pjrt.table import capi
from tilestep.pjrt.table.entry_points import entry_point, immortal


@functools.cache
def layout(form: str) -> _native.Layout:
    """The layout with this text. Equal layouts are one object, which lives as long as the process."""
    return immortal(_native.Layout(form.encode()))


def layout_text(minor_to_major: Sequence[int]) -> str:
    """'{1,0}' for (1, 0)."""
    return "{" + ",".join(map(str, minor_to_major)) + "}"


def order_in(form: str) -> tuple[int, ...]:
    """(1, 0) for '{1,0}'. Tiles and bits of an element, which XLA writes behind a colon, are left out."""
    dims = form.removeprefix("{").partition("}")[0].partition(":")[0]
    return tuple(int(dim) for dim in dims.split(",") if dim)


def row_major(rank: int) -> str:
    """The layout whose last dimension is the minor one."""
    return layout_text(range(rank)[::-1])


@entry_point("PJRT_Layouts_PJRT_Client_GetDefaultLayout")
def client_default_layout(args: capi.PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args) -> None:
    args.layout = id(layout(row_major(args.num_dims)))


@entry_point("PJRT_Layouts_PJRT_Topology_GetDefaultLayout")
def topology_default_layout(args: capi.PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args) -> None:
    args.layout = id(layout(row_major(args.num_dims)))
