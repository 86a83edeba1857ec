"""The layouts extension: how JAX asks in which order an array's dimensions lie in memory. Layouts travel as text: '{1,0}'."""

from __future__ import annotations

import functools
from ctypes import addressof
from typing import Any

from tilestep.pjrt import _native, capi
from tilestep.pjrt.device import nothing_to_delete
from tilestep.pjrt.dry import DryArray
from tilestep.pjrt.entry import entry_point, immortal, pointers, text


class MemoryLayout:
    """One layout; equal ones are one object that stays."""

    def __init__(self, form: str) -> None:
        self.form = form


@functools.cache
def layout(form: str) -> MemoryLayout:
    """The layout with this text."""
    return immortal(MemoryLayout(form))


def row_major(rank: int) -> str:
    """The layout whose last dimension is the minor one."""
    return "{" + ",".join(str(dim) for dim in reversed(range(rank))) + "}"


@entry_point("PJRT_Layouts_MemoryLayout_Serialize")
def layout_serialize(args: capi.PJRT_Layouts_MemoryLayout_Serialize_Args) -> None:
    args.serialized_bytes, args.serialized_bytes_size = text(_native.object_at(args.layout).form)
    args.serialized_layout, args.serialized_layout_deleter = 1, nothing_to_delete()


@entry_point("PJRT_Layouts_PJRT_Client_GetDefaultLayout")
def client_default_layout(args: capi.PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args) -> None:
    args.layout = id(layout(row_major(args.num_dims)))


@entry_point("PJRT_Layouts_PJRT_Topology_GetDefaultLayout")
def topology_default_layout(args: capi.PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args) -> None:
    args.layout = id(layout(row_major(args.num_dims)))


@entry_point("PJRT_Layouts_PJRT_Buffer_MemoryLayout")
def buffer_layout(args: capi.PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args) -> None:
    buffer: _native.Buffer = _native.object_at(args.buffer)
    args.layout = id(layout(buffer_layout_text(buffer)))


def buffer_layout_text(buffer: _native.Buffer) -> str:
    """A buffer's layout: the one its array has."""
    if buffer.array is None or buffer.array.is_deleted():
        raise RuntimeError("INVALID_ARGUMENT: the array has been deleted or donated")
    own = None if isinstance(buffer.array, DryArray) else buffer.array.format.layout
    if own is None:
        return row_major(buffer.array.ndim)
    order = tuple(reversed(own.major_to_minor))
    return "{" + ",".join(str(dim) for dim in order) + "}"


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
