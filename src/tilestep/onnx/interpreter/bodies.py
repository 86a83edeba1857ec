"""The bodies of operators that ONNX itself defines by others. C++ code that reads a model's node runs in another process."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import onnx
from google.protobuf.message import DecodeError

from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpreter.child import read_parts, write_parts
from tilestep.onnx.interpreter.graph import Graph, Node, Preparation, schema_of, versions_of

_MOST_NODES: Final = 1 << 16  # nodes in a body
_MOST_ANSWER_BYTES: Final = 1 << 26
_TIMEOUT_WALL_S: Final = 60  # for one answer, on a busy computer


@functools.lru_cache(maxsize=4096)
def body_of(node: Node, types: tuple[bytes, ...]) -> Graph:
    """The prepared body of an operator that ONNX defines by others.

    Args: types: a TypeProto for each input, empty for an absent one. Bodies that hold for all types read none.

    Raises: OnnxError if ONNX has no body for such inputs.
    """
    schema: Any = schema_of(node.domain, node.op_type, node.version)
    if schema.has_function:
        body = schema.function_body
        proto = onnx.FunctionProto.FromString(body if isinstance(body, bytes) else body.SerializeToString())
    else:
        proto = _for_types(node, types)
    preparation = Preparation(functions={}, left=_MOST_NODES)
    defaults = {name: attribute.default_value for name, attribute in schema.attributes.items() if attribute.default_value.name}
    given = {**defaults, **{attribute.name: attribute for attribute in node.proto.attribute}}
    graph = preparation.body(
        node.op_type, proto.node, tuple(proto.input), tuple(proto.output), versions_of(proto.opset_import), {}, given=given, depth=0
    )
    preparation.require_all()
    return graph


def check_in_child(model: bytes) -> str:
    """What ONNX's checker and its inference of shapes find wrong with a model; "" if nothing. Raises: OnnxError if they fail themselves."""
    return _ask("the checker", b"check", model).decode("utf-8", "replace")


def _for_types(node: Node, types: tuple[bytes, ...]) -> onnx.FunctionProto:
    parts = (node.domain.encode(), node.op_type.encode(), str(node.version).encode(), node.proto.SerializeToString(), *types)
    made = _ask(node.place, b"body", *parts)
    if not made:
        raise OnnxError(f"{node.place}: ONNX gives no body for inputs of these types")
    try:
        return onnx.FunctionProto.FromString(made)
    except DecodeError as error:
        raise OnnxError(f"{node.place}: ONNX gives a damaged body: {error}") from error


def _ask(what: str, *parts: bytes) -> bytes:
    """An answer of the other process. Raises: OnnxError if it is none."""
    try:
        with _Child.lock:
            try:
                status, answer = _Child.answer(parts)
            except EOFError:  # somebody may have ended it before the question
                status, answer = _Child.answer(parts)
    except (OSError, EOFError) as error:
        raise OnnxError(f"{what}: ONNX's own code failed on it ({str(error) or type(error).__name__})") from error
    if status != b"ok":
        raise OnnxError(f"{what}: ONNX's own code refused it: {answer.decode('utf-8', 'replace')[:500]}")
    return answer


class _Child:
    """The other process. It is started at the first question, and again after a crash."""

    lock = threading.Lock()
    _only: _Child | None = None

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            (sys.executable, "-P", str(Path(__file__).with_name("child.py")), *sys.path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(self.end)

    @classmethod
    def running(cls) -> _Child:
        """The process of this one; a fork of this one starts its own."""
        if cls._only is None or cls._only._owner != os.getpid() or cls._only._process.poll() is not None:
            cls._only = cls()  # pyrefly: ignore[instance-var-assign]
        return cls._only

    @classmethod
    def answer(cls, parts: tuple[bytes, ...]) -> tuple[bytes, bytes]:
        """(status, answer). Raises: EOFError if the process has ended, TimeoutError if it takes too long; it is ended then."""
        child = cls.running()
        try:
            return child._ask(parts)
        except BrokenPipeError as error:
            child.end()
            raise EOFError("it ended before the question") from error
        except BaseException:  # also where Ctrl-C comes in the midst of an answer
            child.end()
            raise

    def _ask(self, parts: tuple[bytes, ...]) -> tuple[bytes, bytes]:
        assert self._process.stdin is not None
        write_parts(self._process.stdin, parts)
        answer = read_parts(self._reader())
        if answer is None or len(answer) != 2:
            raise EOFError(f"it ended with status {self._process.wait()}")
        return answer[0], answer[1]

    def _reader(self) -> Callable[[int], bytes]:
        """A function that reads so many bytes of the answer."""
        stream = self._process.stdout
        assert stream is not None
        deadline = time.monotonic() + _TIMEOUT_WALL_S

        def read(size: int) -> bytes:
            if size > _MOST_ANSWER_BYTES:
                raise EOFError(f"an answer of {size:,} B")
            found = bytearray()
            with selectors.DefaultSelector() as selector:
                selector.register(stream, selectors.EVENT_READ)
                while len(found) < size:
                    if not selector.select(max(0.0, deadline - time.monotonic())):
                        raise TimeoutError(f"no answer in {_TIMEOUT_WALL_S} s")
                    chunk = os.read(stream.fileno(), size - len(found))
                    if not chunk:
                        break
                    found += chunk
            return bytes(found)

        return read

    def end(self) -> None:
        """Ends the process, unless it belongs to another one."""
        atexit.unregister(self.end)
        if self._owner != os.getpid():
            return
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._process.wait()
