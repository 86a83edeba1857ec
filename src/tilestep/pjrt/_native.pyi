"""The C side of the platform (native/*.c)."""

from collections.abc import Callable
from typing import Any

class Layout:
    form: bytes
    def __init__(self, form: bytes, /) -> None: ...

class Shape:
    type: int
    size_bytes: int
    def __init__(self, type: int, dims: tuple[int, ...], minor_to_major: tuple[int, ...], size_bytes: int, layout: Layout, /) -> None: ...

class Memory:
    id: int
    kind: bytes
    devices: tuple[Any, ...] | None
    address: int
    live_bytes: int
    peak_bytes: int
    buffers_made: int
    def __init__(self, id: int, kind_id: int, kind: bytes, name: bytes, /) -> None: ...
    def set_devices(self, devices: tuple[Any, ...], /) -> None: ...

class Event:
    def __init__(self, waitables: tuple[Any, ...], /) -> None: ...
    def wait(self) -> None: ...
    def fire(self, callback: int, user: int, /) -> None: ...

class Buffer:
    array: Any
    device: Any
    memory: Memory
    shape: Shape
    value: int
    pinned: Any
    pins: int
    def __init__(self, array: Any, device: Any, memory: Memory, shape: Shape, /) -> None: ...

class ExecutableBase:
    num_replicas: int
    num_partitions: int
    num_outputs: int
    deleted: int
    direct: tuple[Any, ...] | None
    devices: tuple[Any, ...]
    shapes: tuple[Shape, ...]
    memories: tuple[tuple[Memory, ...], ...]

def set_handler(table: int, index: int, handler: Callable[[int], None], /) -> None: ...
def expect_dry_values() -> None: ...
def configure(
    describe_error: Callable[[BaseException], tuple[int, bytes]],
    wait_later: Callable[[tuple[Event, int, int]], None],
    forgotten: list[int],
    /,
) -> None: ...
def capsule() -> object: ...
def own(object: Any, /) -> int: ...
def releaser() -> int: ...
def object_at(address: int | None, /) -> Any: ...
def memory_at(address: int | None, /) -> Memory: ...
def done_event() -> int: ...
def close() -> None: ...
def host_tensor(type_code: int, bits: int, dims: tuple[int, ...], size_bytes: int, /) -> tuple[object, int]: ...
def layout_facts() -> list[tuple[str, str, int]]: ...
