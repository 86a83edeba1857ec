"""The layouts extension: how JAX asks in which order an array's dimensions lie in memory. Layouts travel as text: '{1,0}'."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from ctypes import addressof
from typing import Any

from tilestep.pjrt import _native
from tilestep.pjrt.table import capi
from tilestep.pjrt.table.entry_points import entry_point, immortal, pointers


@functools.cache
def layout(form: str) -> _native.Layout:
    """The layout with this text. Equal ones are one object that stays."""
    return immortal(_native.Layout(form.encode()))


def layout_text(minor_to_major: Sequence[int]) -> str:
    """'{1,0}' for (1, 0)."""
    return "{" + ",".join(map(str, minor_to_major)) + "}"


def order_in(form: str) -> tuple[int, ...]:
    """(1, 0) of '{1,0}'; what XLA says behind a colon of tiles and of bits an element is left out."""
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


def _give(args: Any, what: str, executable: Any, forms: list[str]) -> None:
    key = f"{what}_layouts_array"
    if key not in executable.__dict__:
        executable.__dict__[key] = pointers([id(layout(form)) for form in forms])
    setattr(args, f"num_{what}s", len(forms))
    args.layouts = addressof(executable.__dict__[key])


@entry_point("PJRT_Layouts_PJRT_Executable_GetOutputLayouts")
def executable_output_layouts(args: capi.PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args) -> None:
    executable = _native.object_at(args.executable)
    _give(args, "output", executable, executable.output_layouts())


@entry_point("PJRT_Layouts_PJRT_Executable_GetParameterLayouts")
def executable_parameter_layouts(args: capi.PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args) -> None:
    executable = _native.object_at(args.executable)
    _give(args, "parameter", executable, executable.parameter_layouts())
