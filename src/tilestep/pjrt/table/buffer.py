"""Buffers: values on the emulated machine, made from host memory, copied, read and deleted.

A buffer's memory is XLA:CPU's; the buffer knows the IPU and memory kind that the value would have. C answers the questions that JAX asks
often (native/buffer_entries.c, put.c, read.c).
"""

import functools
import math
from ctypes import c_char, memmove
from typing import Any

import ml_dtypes
import numpy as np

from tilestep.pjrt import _native
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.running.dry import DryArray, DryForm, DryMode
from tilestep.pjrt.running.journal import is_under_way
from tilestep.pjrt.table import capi, layouts
from tilestep.pjrt.table.client import the_client
from tilestep.pjrt.table.device import Device, device_at, device_of_memory
from tilestep.pjrt.table.entry_points import entry_point, read_int64s

_DTYPES: dict[str, Any] = {
    "PRED": np.bool_, "S8": np.int8, "S16": np.int16, "S32": np.int32, "S64": np.int64,
    "U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64,
    "F16": np.float16, "F32": np.float32, "F64": np.float64, "C64": np.complex64, "C128": np.complex128,
    "BF16": ml_dtypes.bfloat16, "S2": ml_dtypes.int2, "U2": ml_dtypes.uint2, "S4": ml_dtypes.int4, "U4": ml_dtypes.uint4,
    "S1": getattr(ml_dtypes, "int1", None), "U1": getattr(ml_dtypes, "uint1", None),
    "F8E5M2": ml_dtypes.float8_e5m2, "F8E4M3FN": ml_dtypes.float8_e4m3fn, "F8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "F8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "F8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "F8E4M3": ml_dtypes.float8_e4m3,
    "F8E3M4": ml_dtypes.float8_e3m4, "F8E8M0FNU": ml_dtypes.float8_e8m0fnu, "F4E2M1FN": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
DTYPE_OF_CODE = {getattr(capi, f"PJRT_Buffer_Type_{name}"): np.dtype(dtype) for name, dtype in _DTYPES.items() if dtype is not None}
CODE_OF_DTYPE = {dtype: code for code, dtype in DTYPE_OF_CODE.items()}
_DLPACK_TYPES = {
    0: "S8 S16 S32 S64", 1: "U8 U16 U32 U64", 2: "F16 F32 F64", 4: "BF16", 5: "C64 C128", 6: "PRED", 7: "F8E3M4", 8: "F8E4M3",
    9: "F8E4M3B11FNUZ", 10: "F8E4M3FN", 11: "F8E4M3FNUZ", 12: "F8E5M2", 13: "F8E5M2FNUZ", 14: "F8E8M0FNU",
}  # fmt: skip
_DLPACK_CODES = {np.dtype(_DTYPES[name]): code for code, names in _DLPACK_TYPES.items() for name in names.split()}
_ALIGNMENT_BYTES = 64  # XLA:CPU takes over host memory without a copy from this alignment on


@functools.lru_cache(maxsize=65536)
def shape_of(dims: tuple[int, ...], dtype: np.dtype[Any], minor_to_major: tuple[int, ...] | None = None) -> _native.Shape:
    """The C side's description of an array. Raises: NotImplementedError for a dtype that PJRT has no code for."""
    if dtype not in CODE_OF_DTYPE:
        raise NotImplementedError(f"dtype {dtype} has no PJRT type; known are {', '.join(str(d) for d in CODE_OF_DTYPE)}")
    size_bytes = int(np.prod(dims, dtype=np.int64)) * dtype.itemsize
    order = tuple(reversed(range(len(dims)))) if minor_to_major is None else minor_to_major
    return _native.Shape(CODE_OF_DTYPE[dtype], dims, order, size_bytes, layouts.layout(layouts.layout_text(order)))


def _shape_of_code(code: int, dims: tuple[int, ...]) -> _native.Shape:
    return shape_of(dims, DTYPE_OF_CODE[code])


_native.configure_puts(compat.take_over, _shape_of_code)
TOKEN_SHAPE = _native.Shape(capi.PJRT_Buffer_Type_TOKEN, (), (), 0, layouts.layout("{}"))


def make_buffer(array: Any, device: Device, memory: _native.Memory, minor_to_major: tuple[int, ...] | None = None) -> _native.Buffer:
    """A buffer for a one-device array of the host client. `minor_to_major` is row-major by default."""
    return _native.Buffer(array, device, memory, shape_of(array.shape, array.dtype, minor_to_major))


def _on_host(memory: _native.Memory) -> bool:
    return memory.kind != b"device"


def _buffer(address: int | None) -> _native.Buffer:
    return _native.object_at(address)


def _live_array(buffer: _native.Buffer) -> Any:
    if buffer.array is None or buffer.array.is_deleted():
        raise RuntimeError("INVALID_ARGUMENT: the array has been deleted or donated")
    return buffer.array


def _aligned(dims: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    size = int(np.prod(dims, dtype=np.int64)) * dtype.itemsize
    if size < 2048:  # XLA:CPU's own copy of so little costs less than aligned memory
        return np.empty(dims, dtype)
    try:
        raw = np.empty(size + _ALIGNMENT_BYTES, np.uint8)
    except MemoryError:
        raise MemoryError(f"Out of memory allocating {size} bytes.") from None
    start = -raw.ctypes.data % _ALIGNMENT_BYTES
    return raw[start : start + size].view(dtype).reshape(dims)


@entry_point("PJRT_Client_BufferFromHostBuffer")
def buffer_from_host(args: capi.PJRT_Client_BufferFromHostBuffer_Args) -> None:
    dtype = DTYPE_OF_CODE.get(args.type)
    if dtype is None:
        raise NotImplementedError(f"PJRT buffer type {args.type} is unknown")
    dims = read_int64s(args.dims, args.num_dims)
    if args.memory:
        memory = _native.memory_at(args.memory)
        device = device_at(args.device) if args.device else device_of_memory(memory)
    else:
        device = device_at(args.device)
        memory = device.memory("device")
    array = _host_array(args, dims, dtype, device, memory)
    buffer = make_buffer(array, device, memory)
    device.journal.put(buffer.value, device.id, buffer.shape.size_bytes, _on_host(memory), _contents(args, dims, dtype, device))
    args.done_with_host_buffer = _native.done_event()
    args.buffer = _native.own(buffer)


def _contents(args: capi.PJRT_Client_BufferFromHostBuffer_Args, dims: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> int:
    """The number of the bytes while a recording keeps it; 0 if they are not dense."""
    contents, steps = device.journal.contents, read_int64s(args.byte_strides, args.num_byte_strides)
    if contents is None or not args.data:
        return 0
    size = dtype.itemsize
    for length, step in zip(reversed(dims), reversed(steps), strict=False):  # no strides: dense
        if length > 1 and step != size:
            return 0
        size *= length
    return contents.number(args.data, math.prod(dims) * dtype.itemsize)


def _host_array(
    args: capi.PJRT_Client_BufferFromHostBuffer_Args, dims: tuple[int, ...], dtype: np.dtype[Any], device: Device, memory: _native.Memory
) -> Any:
    mode = device.dry_mode
    if mode is not None:
        if device.own_dry_mode is None:
            the_client().start()  # no program may have come yet
        return DryArray(DryForm(dims, dtype, mode))
    client = the_client()
    client.require_same_settings()
    host_device, kind = client.host_devices[device.id], memory.kind.decode()
    code = _DLPACK_CODES.get(dtype)
    if code is None or kind != "device":  # DLPack has no code for the elements, or does not know the memory
        values = _aligned(dims, dtype)
        _fill(values.ctypes.data, values.nbytes, args, dims, dtype)
        return compat.put(values, host_device, kind)
    size = math.prod(dims) * dtype.itemsize
    tensor, address = _native.host_tensor(code, dtype.itemsize * 8, dims, size)
    _fill(address, size, args, dims, dtype)
    return compat.take_over(tensor, host_device, None)


def _fill(address: int, size: int, args: capi.PJRT_Client_BufferFromHostBuffer_Args, dims: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Copies JAX's host buffer to `address`, row-major."""
    if not args.data or not size:
        return
    if args.num_byte_strides:
        memory: Any = (c_char * size).from_address(address)
        np.ndarray(dims, dtype, memory)[...] = _strided(args.data, dims, dtype, read_int64s(args.byte_strides, args.num_byte_strides))
    else:
        memmove(address, args.data, size)


def _strided(data: int, dims: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A view of host memory whose strides may be negative."""
    low = sum((n - 1) * stride for n, stride in zip(dims, strides, strict=True) if stride < 0)
    high = sum((n - 1) * stride for n, stride in zip(dims, strides, strict=True) if stride > 0) + dtype.itemsize
    memory: Any = (c_char * (high - low)).from_address(data + low)
    return np.ndarray(dims, dtype, memory, offset=-low, strides=strides)


def on_host(values: np.ndarray[Any, Any]) -> Any:
    """An array of XLA:CPU in the memory of a NumPy array, if that has XLA:CPU's alignment; else a copy."""
    return compat.put(values, the_client().host_devices[0], "device")


@entry_point("PJRT_Buffer_Delete")
def buffer_delete(args: capi.PJRT_Buffer_Delete_Args) -> None:
    buffer = _buffer(args.buffer)
    if buffer.array is not None and not buffer.array.is_deleted():
        buffer.array.delete()
    buffer.array = None


@entry_point("PJRT_Buffer_IsDeleted")
def buffer_is_deleted(args: capi.PJRT_Buffer_IsDeleted_Args) -> None:
    array = _buffer(args.buffer).array
    args.is_deleted = array is None or array.is_deleted()


def _copy(source: _native.Buffer, device: Device, memory: _native.Memory) -> int:
    array = _live_array(source)
    if isinstance(array, DryArray):
        mode = device.dry_mode or DryMode()
        form = array.form if array.form.mode == mode else DryForm(array.shape, array.dtype, mode)  # replicas have one form together
        target = make_buffer(DryArray(form), device, memory)
    else:
        client = the_client()
        client.require_same_settings()
        array = compat.copy(array, client.host_devices[device.id], memory.kind.decode())
        target = make_buffer(array, device, memory, compat.minor_to_major(array))
    source.device.journal.copy(source.value, target.value, device.id, _on_host(memory))
    return _native.own(target)


@entry_point("PJRT_Buffer_CopyToDevice")
def buffer_copy_to_device(args: capi.PJRT_Buffer_CopyToDevice_Args) -> None:
    device = device_at(args.dst_device)
    args.dst_buffer = _copy(_buffer(args.buffer), device, device.memory("device"))


@entry_point("PJRT_Buffer_CopyToMemory")
def buffer_copy_to_memory(args: capi.PJRT_Buffer_CopyToMemory_Args) -> None:
    memory = _native.memory_at(args.dst_memory)
    args.dst_buffer = _copy(_buffer(args.buffer), device_of_memory(memory), memory)


@entry_point("PJRT_Buffer_ToHostBuffer")
def buffer_to_host(args: capi.PJRT_Buffer_ToHostBuffer_Args) -> None:
    buffer = _buffer(args.src)
    if not args.dst:
        args.dst_size = buffer.shape.size_bytes
        return
    values = np.asarray(_live_array(buffer))
    if args.host_layout:
        layout = capi.PJRT_Buffer_MemoryLayout.from_address(args.host_layout)
        if layout.type != capi.PJRT_Buffer_MemoryLayout_Type_Tiled:
            raise NotImplementedError("host layouts given by strides are not implemented")
        order = read_int64s(layout.tiled.minor_to_major, layout.tiled.minor_to_major_size)
        values = np.transpose(values, order[::-1])
    values = np.ascontiguousarray(values)
    if args.dst_size < values.nbytes:
        raise ValueError(f"the value has {values.nbytes} bytes, the host's buffer {args.dst_size}")
    memmove(args.dst, values.ctypes.data, values.nbytes)
    buffer.device.journal.read(buffer.value)
    args.event = _native.done_event()


@entry_point("PJRT_Buffer_CopyRawToHost")
def buffer_copy_raw_to_host(args: capi.PJRT_Buffer_CopyRawToHost_Args) -> None:
    buffer = _buffer(args.buffer)
    raw = np.ascontiguousarray(np.asarray(_live_array(buffer))).view(np.uint8).reshape(-1)
    if args.offset < 0 or args.offset + args.transfer_size > raw.nbytes:
        raise ValueError(f"bytes {args.offset} to {args.offset + args.transfer_size} lie outside of the value's {raw.nbytes}")
    if args.dst is None:
        raise ValueError("there is no place for the bytes")
    memmove(args.dst, raw.ctypes.data + args.offset, args.transfer_size)
    buffer.device.journal.read(buffer.value)
    args.event = _native.done_event()


@entry_point("PJRT_Buffer_UnsafePointer")
def buffer_unsafe_pointer(args: capi.PJRT_Buffer_UnsafePointer_Args) -> None:
    array = _live_array(_buffer(args.buffer))
    if is_under_way():  # the address is not used
        array.block_until_ready()
        args.buffer_pointer = 0
        return
    args.buffer_pointer = array.unsafe_buffer_pointer()


@entry_point("PJRT_Buffer_OpaqueDeviceMemoryDataPointer")
def buffer_data_pointer(args: capi.PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args) -> None:
    array = _live_array(_buffer(args.buffer))
    array.block_until_ready()
    args.device_memory_ptr = array.unsafe_buffer_pointer()


@entry_point("PJRT_Buffer_IncreaseExternalReferenceCount")
def buffer_pin(args: capi.PJRT_Buffer_IncreaseExternalReferenceCount_Args) -> None:
    """Pins the memory for a caller that takes its address, np.asarray among them: XLA:CPU must neither free nor reuse it.

    C calls this only where it cannot pin by itself (native/read.c). C alone unpins.
    """
    buffer = _buffer(args.buffer)
    if not buffer.pins:
        buffer.pinned = np.asarray(_live_array(buffer))
        buffer.device.journal.read(buffer.value)
    buffer.pins += 1
