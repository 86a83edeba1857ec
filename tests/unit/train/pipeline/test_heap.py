"""Memory goes back to the system, and small pieces of it are kept out of use."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.processes import run_python

GIVES_BACK = """
import ctypes, threading
from pathlib import Path
from tilestep.train.pipeline.compile.heap import give_back

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def resident():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])

def work():  # chunks too small to be mapped by themselves, of which some stay, so that the arena cannot shrink
    chunks = [libc.malloc(60_000) for _ in range(1000)]
    for chunk in chunks:
        ctypes.memset(chunk, 1, 60_000)
    for number, chunk in enumerate(chunks):
        if number % 10:
            libc.free(chunk)

thread = threading.Thread(target=work)
thread.start()
thread.join()
before = resident()
assert give_back()
print(before - resident())
"""

HOLDS = """
import ctypes, gc, sys
from tilestep.train.pipeline.compile import heap

libc = ctypes.PyDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
SIZES = 984, 600, 200
chunks = {size: [libc.malloc(size) for _ in range(4000)] for size in SIZES}
scattered = {size: set(own[::2]) for size, own in chunks.items()}
for own in scattered.values():
    for chunk in own:
        libc.free(chunk)

def of_these():  # how many of what malloc gives lie between chunks in use
    counts = []
    for size in SIZES:
        given = [libc.malloc(size) for _ in range(100)]
        counts.append(len(scattered[size].intersection(given)))
        for chunk in given:
            libc.free(chunk)
    return counts

if len(sys.argv) > 1:
    heap.MOST_BYTES = int(sys.argv[1])
before = of_these()
pieces = heap.hold_pieces()
held, count = of_these(), -1 if pieces is None else pieces.count
del pieces
gc.collect()
print(*before, *held, *of_these(), count)
"""

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc is what keeps it")


@needs_glibc
def test_what_a_thread_has_freed_goes_back_to_the_system() -> None:
    result = run_python("-c", GIVES_BACK)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 40_000_000  # of 60 million bytes


def held(*args: str, **environment: str) -> tuple[list[int], list[int], list[int], int]:
    """Of 100 chunks of each size, how many lie between others: before pieces are held, meanwhile, afterwards; how many are held, or -1."""
    result = run_python("-c", HOLDS, *args, environ={"PYTHONMALLOC": "pymalloc", "PYTHONTRACEMALLOC": "0"} | environment)
    assert result.returncode == 0, result.stderr
    found = list(map(int, result.stdout.split()))
    return found[:3], found[3:6], found[6:9], found[9]


@needs_glibc
def test_small_pieces_are_held_until_nobody_refers_to_them() -> None:
    before, meanwhile, after, count = held()
    assert (before, meanwhile) == ([100] * 3, [0] * 3)
    assert min(after) > 90  # the few that were freed last are given out first
    assert 5900 < count < 40_000  # 6,000 of these sizes, and what importing has left


@needs_glibc
def test_a_heap_with_too_many_small_pieces_is_left_as_it_is() -> None:
    before, meanwhile, after, count = held("1000000")  # bytes, of those 3.5 million
    assert (before, count) == ([100] * 3, -1)
    assert min(meanwhile) > 90
    assert min(after) > 90


@needs_glibc
def test_another_malloc_is_left_alone(tmp_path: Path) -> None:
    source, library = tmp_path / "malloc.c", tmp_path / "malloc.so"
    source.write_text("#include <stddef.h>\nvoid *__libc_malloc(size_t);\nvoid *malloc(size_t size) { return __libc_malloc(size); }\n")
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    subprocess.run([*shlex.split(compiler), "-shared", "-fPIC", "-o", library, source], check=True)
    assert held(LD_PRELOAD=str(library))[3] == -1
