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
from tilestep.train.pipeline.compile import heap

PROGRAM = """
import ctypes, gc, importlib.util, sys, threading
from pathlib import Path

spec = importlib.util.spec_from_file_location("heap", sys.argv[1])  # without the packages around it, which fill the heap
heap = importlib.util.module_from_spec(spec)
spec.loader.exec_module(heap)
libc = ctypes.PyDLL(None)
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
heap.give_back()
print(before - resident())

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

for most in (1_000_000, heap.MOST_BYTES):  # of those 3.5 million
    heap.MOST_BYTES = most
    before = of_these()
    pieces = heap.hold_pieces()
    held, count = of_these(), -1 if pieces is None else pieces.count
    del pieces
    gc.collect()
    print(*before, *held, *of_these(), count)
"""

pytestmark = pytest.mark.process
needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc is what keeps it")


def printed(**environment: str) -> tuple[int, list[list[int]]]:
    """(Bytes that went back to the system; for two bounds: of 100 chunks of each size, how many lie between others before pieces are held,
    meanwhile and afterwards, and how many are held, or -1)."""
    result = run_python("-S", "-c", PROGRAM, heap.__file__, environ={"PYTHONMALLOC": "pymalloc", "PYTHONTRACEMALLOC": "0"} | environment)
    assert result.returncode == 0, result.stderr
    (back,), *found = [list(map(int, line.split())) for line in result.stdout.splitlines()]
    return back, found


@needs_glibc
def test_free_memory_goes_back_and_small_pieces_are_held_until_nobody_refers_to_them() -> None:
    back, (too_many, all_of_them) = printed()
    assert back > 40_000_000  # of 60 million that a thread has had
    assert too_many[:3] == [100] * 3
    assert too_many[9] == -1  # a heap with more than the bound is left as it is
    assert min(too_many[3:9]) > 90  # the few that were freed last are given out first
    assert all_of_them[3:6] == [0] * 3
    assert min(*all_of_them[:3], *all_of_them[6:9]) > 90
    assert 5900 < all_of_them[9] < 40_000  # 6,000 of these sizes, and what starting has left


@needs_glibc
def test_another_malloc_is_left_alone(tmp_path: Path) -> None:
    source, library = tmp_path / "malloc.c", tmp_path / "malloc.so"
    source.write_text("#include <stddef.h>\nvoid *__libc_malloc(size_t);\nvoid *malloc(size_t size) { return __libc_malloc(size); }\n")
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    subprocess.run([*shlex.split(compiler), "-shared", "-fPIC", "-o", library, source], check=True)
    assert [own[9] for own in printed(LD_PRELOAD=str(library))[1]] == [-1, -1]
