"""Memory goes back to the system."""

from __future__ import annotations

import platform

import pytest

from tests.processes import run_python

PROGRAM = """
import ctypes, threading
from pathlib import Path
from tilestep.train.host_memory import give_back

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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc is what keeps it")
def test_what_a_thread_has_freed_goes_back_to_the_system() -> None:
    result = run_python("-c", PROGRAM)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 40_000_000  # of 60 million bytes
