"""Hostile input must not keep its reader busy: the bound is far above what any input here needs, and far below what a blow-up takes.

The time is the thread's own, so that neither a busy machine nor other threads of the process count.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

BOUND_CPU_S = 20


@contextmanager
def ends_soon() -> Iterator[None]:
    start = time.thread_time()
    yield
    took_cpu_s = time.thread_time() - start
    assert took_cpu_s < BOUND_CPU_S, f"{took_cpu_s:.0f} s of CPU time"
