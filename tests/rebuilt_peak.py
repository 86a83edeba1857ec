"""Every program that a test plans is checked: its peak, worked out again from the lives of its values, is the plan's.

The plan adds bytes up while it walks the steps. `record.memory` knows only which tiles and ticks each value takes.
"""

import importlib
from collections.abc import Callable
from typing import Any

from tilestep.plan.memory.liveness import Liveness, liveness
from tilestep.plan.steps import Branch, Loop, Node, Program, Series
from tilestep.recording.memory import alive, memory_of, peak

WRONG: list[str] = []  # sentences about programs of the test that runs
_checked = 0


def checked() -> int:
    """How many programs this process has planned and checked."""
    return _checked


def wrong_peak(program: Program, detail: Liveness) -> str:
    """What differs between a program's plan and its lives; '' if nothing does."""
    memory = program.memory
    columns = memory_of(detail)
    found = peak(columns)
    rebuilt = (found.total_bytes, found.tile, detail.steps[found.tick])
    planned = (memory.peak_bytes, memory.tile, memory.peak_step)
    if rebuilt != planned:
        return f"{program.name}: lives have their peak (bytes, tile, step) at {rebuilt}, the plan at {planned}"
    names = _leaves(program.body)
    here = [detail.steps[tick] for tick, leaf in enumerate(detail.leaves) if leaf >= 0]
    if names != here or [leaf for leaf in detail.leaves if leaf >= 0] != list(range(len(names))):
        return f"{program.name}: ticks have leaves {here}, the tree {names}"
    values = [detail.lives[row] for row in alive(columns, found.tick).tolist() if detail.lives[row].category != "constant"]
    temporary_bytes = detail.temporary_tile_bytes[found.tick]
    on_tile: dict[str, int] = {f"temporaries of {detail.steps[found.tick]}": temporary_bytes} if temporary_bytes else {}
    for life in values:
        if (found.tile - life.start_tile) % detail.num_tiles < life.tiles:
            on_tile[life.name] = on_tile.get(life.name, 0) + life.tile_bytes
    if on_tile != dict(memory.alive):
        return f"{program.name}: lives have on tile {found.tile} {on_tile}, the plan {dict(memory.alive)}"
    values_bytes = sum(life.tile_bytes * life.tiles for life in values) + temporary_bytes * detail.num_tiles
    if values_bytes != memory.values_bytes:
        return f"{program.name}: lives have {values_bytes} B on all tiles, the plan {memory.values_bytes}"
    resident_bytes = sum(
        life.tile_bytes for life in values if life.category == "resident" and (found.tile - life.start_tile) % detail.num_tiles < life.tiles
    )
    if resident_bytes != memory.resident_bytes:
        return f"{program.name}: resident lives have {resident_bytes} B on tile {found.tile}, the plan {memory.resident_bytes}"
    frames = {node for node in (life.frame for life in detail.lives) if not 0 <= node <= len(program.frames)}
    return f"{program.name}: lives have frames {frames}, the program {len(program.frames)}" if frames else ""


def _leaves(node: Node) -> list[str]:
    """Names of the leaves, in the order of the tree."""
    match node:
        case Series(nodes=nodes):
            return [name for child in nodes for name in _leaves(child)]
        case Loop(body=body):
            return _leaves(body)
        case Branch(arms=arms):
            return [name for arm in arms for name in _leaves(arm)]
        case _:
            return [node.name]


def check_every_plan() -> None:
    """From now on every program that this process plans is checked; what is wrong is found in WRONG."""
    module = importlib.import_module("tilestep.plan.lower")
    planned: Callable[..., Any] = vars(module)["_lowered"]

    def planned_and_checked(*arguments: Any) -> Any:
        global _checked
        program, held, frames = planned(*arguments)
        _checked += 1
        if said := wrong_peak(program, liveness(held, program.body, frames.number)):
            WRONG.append(said)
        return program, held, frames

    setattr(module, "_lowered", planned_and_checked)  # noqa: B010
