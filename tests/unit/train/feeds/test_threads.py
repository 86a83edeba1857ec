"""Random schedules of feeding, running, reading and closing from several threads: no deadlock, and each element at most once."""

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tilestep.errors import DatasetError, QueueError
from tilestep.train import InfeedQueue, OutfeedQueue, repeat, while_loop

SCHEDULES = 1000
GROUPS = 10
FEW = 3  # groups; the others are long


def schedule(seed: int, body: Any, outfeed: OutfeedQueue) -> None:
    """One schedule: a thread that loops, one or two that read, one that may close."""
    random_ = random.Random(seed)
    ends = random_.choice([None, None, random_.randrange(30)])
    pause = random_.choice([0, 0, 1e-4])
    outfeed.dequeue()

    def dataset() -> Iterator[Any]:
        for k in range(10_000 if ends is None else ends):
            if pause and k % 3 == 0:
                time.sleep(pause)
            yield np.float32(k)

    infeed = InfeedQueue(dataset, prefetch_depth=random_.randint(1, 3))
    read: list[float] = []
    lock, failures = threading.Lock(), []
    over = threading.Event()
    plans = [(random_.choice(["repeat", "while"]), random_.randint(0, 9), random_.choice([1, 2, 4])) for _ in range(random_.randint(1, 4))]
    reading = [random_.choice(["dequeue", "nothing"]) for _ in range(random_.randint(0, 2))]
    closing = random_.choice([None, None, random_.random() * 3e-3])

    def looping() -> None:
        carry: Any = (0, np.float32(-1))
        try:
            for kind, n, chunk in plans:
                if kind == "repeat":
                    carry = repeat(n, body, carry, infeed, outfeed, chunk=chunk)
                else:
                    carry = while_loop(always, body, carry, infeed, outfeed, chunk=chunk, maximum_iterations=n)
        except (DatasetError, QueueError):
            pass
        except BaseException as error:
            failures.append(error)
        finally:
            over.set()

    def take() -> None:
        values = outfeed.dequeue()
        if values is not None:
            read.extend(values.tolist())

    def reader(kind: str) -> None:
        while kind == "dequeue" and not over.is_set():
            with lock:  # two readers would mix their parts of the order
                take()
            time.sleep(1e-4)

    threads = [threading.Thread(target=looping), *(threading.Thread(target=reader, args=(kind,)) for kind in reading)]
    if closing is not None:
        threads.append(threading.Timer(closing, infeed.close))
    random_.shuffle(threads)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), f"schedule {seed} does not end"
    take()
    consumed = infeed.consumed
    infeed.close()
    assert failures == []
    assert read == list(range(len(read))), f"schedule {seed}"
    assert len(read) == consumed, f"schedule {seed}"


def always(carry: Any) -> Any:
    return carry[0] >= 0


@pytest.fixture(scope="module")
def loop() -> tuple[Any, OutfeedQueue]:
    outfeed = OutfeedQueue()

    def body(c: Any, x: Any) -> Any:
        outfeed.enqueue(x)
        return (c[0] + 1, x)

    return body, outfeed


@pytest.mark.few(1)
@pytest.mark.timeout(120)
@pytest.mark.parametrize("group", [*range(FEW), *(pytest.param(group, marks=pytest.mark.slow) for group in range(FEW, GROUPS))])
def test_random_schedules_end_and_lose_nothing(group: int, loop: tuple[Any, OutfeedQueue]) -> None:
    for seed in range(group * SCHEDULES // GROUPS, (group + 1) * SCHEDULES // GROUPS):
        schedule(seed, *loop)
