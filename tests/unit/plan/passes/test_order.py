"""The order of a program's units: right, never worse than the program's own, and mostly the best that there is."""

import heapq
import random
import statistics
from collections.abc import Callable, Mapping

import pytest

from tests.golden.texts import module_text
from tilestep.cost import ELEMENTWISE
from tilestep.plan.passes.fuse import fuse
from tilestep.plan.passes.order import MemoryTask, Tasks, peak_bytes, smallest_peak
from tilestep.program import parse_hlo

STEPS = 12
LARGEST_BYTES = 20


def drawn(seed: int, steps: int = STEPS) -> Tasks:
    """Each step makes one value and reads up to three earlier ones; values that nothing reads stay."""
    rng = random.Random(seed)
    tasks = tuple(MemoryTask(reads=tuple(rng.sample(range(step), min(step, rng.randint(0, 3)))), makes=(step,)) for step in range(steps))
    read = {value for task in tasks for value in task.reads}
    sizes = tuple(rng.randint(1, LARGEST_BYTES) for _ in range(steps))
    return Tasks(tasks=tasks, sizes=sizes, kept=frozenset(range(steps)) - read)


def best_peak(tasks: Tasks) -> int:
    """The smallest peak of all orders: sets of tasks that have run, visited in the order of the peak that leads to them."""
    everything = (1 << len(tasks.tasks)) - 1
    needs = [sum(1 << need for need in own) for own in tasks.needs]
    readers = [sum(1 << reader for reader in own) for own in tasks.readers]
    makers = [value for task in tasks.tasks for value in task.makes]
    seen: set[int] = set()
    ahead = [(0, 0)]
    while True:
        peak, done = heapq.heappop(ahead)
        if done == everything:
            return peak
        if done in seen:
            continue
        seen.add(done)
        used = sum(tasks.sizes[value] for value in makers if done >> value & 1 and (value in tasks.kept or readers[value] & ~done))
        for task, need in enumerate(needs):
            if not done >> task & 1 and not need & ~done:
                heapq.heappush(ahead, (max(peak, used + tasks.sizes[task]), done | 1 << task))


@pytest.mark.slow
def test_most_small_programs_get_the_best_order_that_there_is(record_property: Callable[[str, object], None]) -> None:
    ratios: list[float] = []
    for seed in range(1_000):
        tasks = drawn(seed)
        ratios.append(peak_bytes(tasks, smallest_peak(tasks)) / best_peak(tasks))
    record_property("worst", max(ratios))
    assert ratios.count(1.0) >= 800
    assert min(ratios) == 1.0
    assert statistics.mean(ratios) <= 1.03
    assert max(ratios) < 1.5


def test_the_programs_order_stays_where_it_is_good_enough() -> None:
    tasks = drawn(3)
    own = peak_bytes(tasks, range(STEPS))
    assert peak_bytes(tasks, smallest_peak(tasks)) < own
    assert smallest_peak(tasks, enough_bytes=own) == list(range(STEPS))


def test_a_large_value_is_made_when_it_is_needed() -> None:
    """0 makes a large value that only the last task reads; 1 to 3 are a chain beside it."""
    chain = (MemoryTask(makes=(1,)), MemoryTask(reads=(1,), makes=(2,)), MemoryTask(reads=(2,), makes=(3,)))
    tasks = Tasks(tasks=(MemoryTask(makes=(0,)), *chain, MemoryTask(reads=(0, 3), makes=(4,))), sizes=(10, 8, 8, 1, 1), kept=frozenset({4}))
    assert peak_bytes(tasks, range(5)) == 10 + 8 + 8
    assert smallest_peak(tasks) == [1, 2, 3, 0, 4]
    assert peak_bytes(tasks, smallest_peak(tasks)) == 8 + 8


def test_a_wait_is_kept_even_where_it_costs_memory() -> None:
    """As above, but the chain waits for the large value, as behind `jax.lax.optimization_barrier`."""
    chain = (MemoryTask(makes=(1,), after=(0,)), MemoryTask(reads=(1,), makes=(2,)), MemoryTask(reads=(2,), makes=(3,)))
    tasks = Tasks(tasks=(MemoryTask(makes=(0,)), *chain, MemoryTask(reads=(0, 3), makes=(4,))), sizes=(10, 8, 8, 1, 1), kept=frozenset({4}))
    assert smallest_peak(tasks) == [0, 1, 2, 3, 4]


def test_a_task_in_place_takes_the_memory_of_what_it_reads_last() -> None:
    def peak(*, in_place: bool, kept: frozenset[int] = frozenset()) -> int:
        tasks = (MemoryTask(makes=(0,)), MemoryTask(reads=(0,), makes=(1,), in_place=in_place))
        return peak_bytes(Tasks(tasks=tasks, sizes=(6, 5), kept=kept | {1}), (0, 1))

    assert peak(in_place=True) == 6
    assert peak(in_place=False) == 6 + 5
    assert peak(in_place=True, kept=frozenset({0})) == 6 + 5  # it stays, so its memory is not free


def test_arguments_cost_nothing_whatever_the_order() -> None:
    tasks = Tasks(tasks=(MemoryTask(reads=(0,), makes=(1,)),), sizes=(100, 3), kept=frozenset({1}))
    assert peak_bytes(tasks, (0,)) == 3


def test_a_chain_of_checkpointed_blocks_holds_one_block_at_a_time() -> None:
    """Each block keeps 1, makes 8 again in the backward pass, and a gradient of 1; XLA's order makes all 8s first."""
    blocks = 30
    sizes = [*[1] * blocks, *[8] * blocks, *[1] * blocks]
    forward = [MemoryTask(reads=(block - 1,) if block else (), makes=(block,)) for block in range(blocks)]
    again = [MemoryTask(reads=(block,), makes=(blocks + block,)) for block in range(blocks)]
    backward = [
        MemoryTask(reads=(blocks + block, *((2 * blocks + block + 1,) if block + 1 < blocks else ())), makes=(2 * blocks + block,))
        for block in reversed(range(blocks))
    ]
    tasks = Tasks(tasks=(*forward, *again, *backward), sizes=tuple(sizes), kept=frozenset({2 * blocks}))
    assert peak_bytes(tasks, range(3 * blocks)) > 8 * blocks
    assert peak_bytes(tasks, smallest_peak(tasks)) <= blocks + 8 + 2


def test_weight_gradients_are_added_to_their_accumulators_at_once() -> None:
    """Of a slope and of values made again, 7 each, a layer makes the next slope of 7, and a weight gradient of 9 that is added up.

    A weight gradient takes more memory than it frees. The addition, which writes where an argument lies, frees it.
    """
    layers = 100
    again, slopes, weights = range(layers), range(layers, 2 * layers + 1), range(2 * layers + 1, 3 * layers + 1)
    tasks = [MemoryTask(makes=(slopes[0],)), *(MemoryTask(makes=(value,)) for value in again)]
    tasks += [MemoryTask(reads=(slopes[layer], again[layer]), makes=(slopes[layer + 1],)) for layer in range(layers)]
    tasks += [MemoryTask(reads=(slopes[layer], again[layer]), makes=(weights[layer],)) for layer in range(layers)]
    totals = range(len(tasks), len(tasks) + layers)
    tasks += [MemoryTask(reads=(weights[layer],), makes=(totals[layer],)) for layer in range(layers)]
    sizes = (*[7] * (2 * layers + 1), *[9] * layers, *[0] * layers)
    program = Tasks(tasks=tuple(tasks), sizes=sizes, kept=frozenset({slopes[-1], *totals}))
    assert peak_bytes(program, range(len(tasks))) > 7 * 2 * layers
    assert peak_bytes(program, smallest_peak(program)) == 7 + 7 + 9


# A weight's update, and the weight's last reader. Both are ready when the gradient is; the update frees the gradient.
UPDATE = """
  %w = f32[8]{0} parameter(0)
  %x = f32[64]{0} parameter(1)
  %g = f32[64]{0} sort(%x), dimensions={0}
  %part = f32[8]{0} slice(%g), slice={[0:8]}
  %last = f32[8]{0} sort(%w), dimensions={0}
  %new = f32[8]{0} subtract(%w, %part)
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%new, %last)"""


def order(lines: str, taken_over: Mapping[int, tuple[int, int]] | None = None) -> list[str]:
    found = fuse(parse_hlo(module_text(lines)).entry, elementwise=ELEMENTWISE, taken_over=taken_over or {})
    return [unit.members[-1].name for unit in found.order if unit.members[0].opcode not in ("parameter", "constant")]


def test_an_update_waits_for_all_readers_of_the_old_value() -> None:
    assert order(UPDATE, {0: (0, 0)}) == ["g", "part", "last", "new", "t"]


def test_a_result_with_memory_of_its_own_does_not() -> None:
    assert order(UPDATE) == ["g", "part", "new", "last", "t"]


def test_a_result_that_comes_too_early_for_that_has_memory_of_its_own() -> None:
    lines = UPDATE.splitlines()
    lines[-3], lines[-2] = lines[-2], lines[-3]
    assert order("\n".join(lines), {0: (0, 0)}) == ["g", "part", "new", "last", "t"]


def test_a_write_into_an_array_waits_for_all_that_read_it_before() -> None:
    lines = """
  %x = f32[8]{0} parameter(0)
  %i = s32[] parameter(1)
  %u = f32[1]{0} parameter(2)
  %a = f32[8]{0} sort(%x), dimensions={0}
  %last = f32[8,8]{1,0} broadcast(%a), dimensions={0}
  %read = f32[8,8]{1,0} sort(%last), dimensions={0}
  %new = f32[8]{0} dynamic-update-slice(%a, %u, %i)
  ROOT %t = (f32[8,8]{1,0}, f32[8]{0}) tuple(%read, %new)"""
    assert order(lines) == ["a", "last", "read", "new", "t"]
