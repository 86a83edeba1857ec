"""A process of its own for ONNX's code in C++, which a stranger's bytes may crash. It runs as a script and imports onnx only.

A request is a number of parts, then each part's length and bytes; the first is what to do. An answer is "ok" or "error", then a text or
bytes. Numbers are 8 bytes, little-endian.
"""

import resource
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any, Final

MOST_ADDRESS_BYTES: Final = 4 << 30
_NUMBER: Final = 8


def write_parts(stream: IO[bytes], parts: Sequence[bytes]) -> None:
    """Sends a request or an answer."""
    stream.write(len(parts).to_bytes(_NUMBER, "little"))
    for part in parts:
        stream.write(len(part).to_bytes(_NUMBER, "little"))
        stream.write(part)
    stream.flush()


def read_parts(read: Callable[[int], bytes]) -> list[bytes] | None:
    """The parts of a request or an answer; None at the end of the stream. Args: read: gives so many bytes, fewer at the end."""

    def number() -> int | None:
        found = read(_NUMBER)
        return int.from_bytes(found, "little") if len(found) == _NUMBER else None

    count = number()
    if count is None:
        return None
    parts: list[bytes] = []
    for _ in range(count):
        size = number()
        if size is None:
            return None
        parts.append(read(size))
    return parts


def _body(domain: bytes, name: bytes, version: bytes, node: bytes, *types: bytes) -> bytes:
    """The function that defines an operator for a node and for inputs of these types; empty if there is none."""
    from onnx import defs

    newest = defs.onnx_opset_version()
    schema: Any = defs.get_schema(name.decode(), int(version) if domain else min(int(version), newest), domain.decode())
    versions = schema.context_dependent_function_opset_versions
    chosen = max((found for found in versions if found <= int(version)), default=min(versions))
    return bytes(schema.get_context_dependent_function_with_opset_version(chosen, node, list(types)) or b"")


def _check(model: bytes) -> bytes:
    """What ONNX's checker and its inference of shapes find wrong; empty if nothing."""
    import onnx

    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error).encode()
    return b""


_TASKS: Final[dict[bytes, Any]] = {b"body": _body, b"check": _check}


def _serve() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESS_BYTES, MOST_ADDRESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # C++ and Python may print, which is no answer
    while (parts := read_parts(sys.stdin.buffer.read)) is not None:
        try:
            answer = [b"ok", _TASKS[parts[0]](*parts[1:])]
        except Exception as error:  # whatever a stranger's bytes bring
            answer = [b"error", f"{type(error).__name__}: {error}".encode()]
        write_parts(answers, answer)


if __name__ == "__main__":
    sys.path[:] = filter(None, sys.argv[1:])
    _serve()
