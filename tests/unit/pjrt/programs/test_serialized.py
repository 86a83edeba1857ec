"""Stored programs with a checksum that is right and a header that is not."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.fuzzed_formats import stored_seeds
from tilestep.errors import StoredError
from tilestep.pjrt.programs.serialized import pack, unpack


def with_body(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """A stored program with another body, and the body's checksum."""
    magic, _, body = data.split(b"\n", 2)
    body = change(body)
    return b"\n".join((magic, hashlib.sha256(body).hexdigest().encode(), body))


def header(**changes: Any) -> Callable[[bytes], bytes]:
    def change(body: bytes) -> bytes:
        line, rest = body.split(b"\n", 1)
        return json.dumps({**json.loads(line), **changes}).encode() + b"\n" + rest

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: b"[" * 100_000 + body, r"has no header \(RecursionError"),
        (lambda body: b"[]\n" + body, r"has no header \(TypeError"),
        (header(counted=[[float("inf"), 1]]), r"another header than this version writes \(OverflowError"),
        (header(sizes=[-1, 1, 1, 1, 1]), r"another header .*its parts have \[-1, 1, 1, 1, \.\.\.\] B"),
        (lambda body: body + b"more", r"another header .*B are there"),
        (
            header(versions={"tilestep": "0.0.1", "jaxlib": "0.1\x1b[31m"}),
            r"was written by \{.*'0\.0\.1'.*\}; here are .*: compile it again",
        ),
    ],
)
def test_a_header_that_no_version_writes_is_refused(change: Callable[[bytes], bytes], message: str) -> None:
    data = stored_seeds()[0]
    assert unpack(with_body(data, lambda body: body)) == unpack(data)
    with pytest.raises(StoredError, match=message) as caught:
        unpack(with_body(data, change))
    assert str(caught.value).isprintable()


def test_a_program_of_a_dry_run_is_stored_without_values() -> None:
    dry = replace(unpack(stored_seeds()[0]), values=b"")
    assert unpack(pack(dry)) == dry
