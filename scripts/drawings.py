#!/usr/bin/env python3
"""Draws pictures of docs/pictures: a program with its timeline and bill, a superstep, the path of a program, the memory of a tile, and
those of scripts/popart_drawings.py.

    scripts/drawings.py            write them anew
    scripts/drawings.py --check    name those that are not as this script draws them; exit status 1 if there are any

All but the superstep and the path show what the emulator says of programs. A picture follows the reader's choice of dark or light.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import jax
import jax.numpy as jnp

import tilestep
from tilestep.machine import DEFAULT_MACHINE, load_machine

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.picture import CODE, COMPUTE, EXCHANGE, HOST, SYNC, Picture  # noqa: E402
from scripts.popart_drawings import pipeline_over_time, sync_patterns  # noqa: E402

FOLDER = ROOT / "docs" / "pictures"
TILE_BYTES = load_machine(DEFAULT_MACHINE).ipu.tile.sram_bytes


def superstep() -> str:
    """One superstep: tiles exchange data, wait for each other, compute, and wait again."""
    picture = Picture(760, 350, "A superstep takes as long as its busiest tiles")
    left, top, pitch, height = 90, 58, 38, 24
    tiles = {"tile 0": (90, 150), "tile 1": (60, 210), "tile 2": (130, 120), "tile 3": (80, 180), "tile 1,471": (110, 96)}
    busy, sync = (max(exchange for exchange, _ in tiles.values()), max(compute for _, compute in tiles.values())), 24
    phases = {"exchange": (left, busy[0]), "sync": (left + busy[0], sync), "compute": (left + busy[0] + sync, busy[1])}
    second = left + busy[0] + sync + busy[1]
    for index, (name, (exchange, compute)) in enumerate(tiles.items()):
        y = top + index * pitch + (20 if index == 4 else 0)
        picture.text(left - 10, y + 17, name, kind="small", anchor="end")
        for (x, width), used, fill in ((phases["exchange"], exchange, EXCHANGE), (phases["compute"], compute, COMPUTE)):
            picture.box(x, y, used, height, fill=fill)
            if used < width:
                picture.line((x + used + 3, y + height / 2), (x + width - 3, y + height / 2), dashed=True)
        for x in (phases["sync"][0], second):
            picture.box(x, y, sync, height, fill=SYNC)
    picture.text(left - 24, top + 4 * pitch + 7, "⋮", anchor="end")
    bottom = top + len(tiles) * pitch + 24
    for name, (x, width) in (*phases.items(), ("sync", (second, sync))):
        picture.line((x + 1, bottom), (x + width - 1, bottom))
        picture.text(x + width / 2, bottom + 18, name, kind="small", anchor="middle")
    picture.arrow((left, bottom + 34), (second + sync + 30, bottom + 34))
    picture.text(left, bottom + 52, "time in cycles", kind="small")
    notes = (
        ("Exchange.", "Tiles send data to each other."),
        ("Sync.", "Each waits for all."),
        ("Compute.", "Each works on its own memory."),
        ("- - -", "A tile that is done waits."),
    )
    for index, (word, text) in enumerate(notes):
        picture.text(second + sync + 40, top + 12 + index * 44, word, kind="name")
        picture.text(second + sync + 40, top + 30 + index * 44, text, kind="small")
    picture.text(second + sync + 40, top + 12 + 4 * 44 + 6, "The phases never overlap.", kind="small")
    return picture.svg()


def path_of_a_program() -> str:
    """How a JAX program becomes values and a bill."""
    picture = Picture(860, 470, "Values come from XLA:CPU, time and memory from the emulator")

    def room(x: int, y: int, width: int, name: str, *texts: str, height: int = 64) -> None:
        picture.box(x, y, width, height)
        picture.text(x + width / 2, y + 25, name, kind="title", anchor="middle")
        for index, text in enumerate(texts):
            picture.text(x + width / 2, y + 46 + 16 * index, text, kind="small", anchor="middle")

    room(30, 60, 210, "your JAX program", "jit, grad, shard_map, ...")
    room(330, 60, 220, "pjrt/", "JAX's door: a table of C functions")
    room(640, 60, 190, "XLA:CPU", "in the same process")
    picture.arrow((240, 92), (330, 92))
    picture.arrow((550, 80), (640, 80))
    picture.text(595, 72, "HLO", kind="small", anchor="middle")
    picture.arrow((640, 106), (550, 106))
    picture.text(595, 124, "values", kind="small", anchor="middle")
    room(30, 210, 150, "program/", "reads HLO")
    room(220, 210, 150, "cost/", "prices one operation")
    room(410, 210, 150, "plan/", "splits it over tiles")
    room(610, 210, 220, "Program", "supersteps, bytes on each tile")
    picture.arrow((380, 124), (380, 167), (105, 167), (105, 210))
    picture.text(243, 160, "at compile: HLO of each device", kind="small", anchor="middle")
    picture.arrow((180, 242), (220, 242))
    picture.arrow((370, 242), (410, 242))
    picture.arrow((560, 242), (610, 242))
    room(220, 315, 340, "machine/", "tiles, memory, clocks, links: each figure with its source")
    picture.arrow((295, 315), (295, 274))
    picture.arrow((485, 315), (485, 274))
    room(610, 315, 220, "sim/", "virtual clocks, in whole cycles")
    picture.arrow((720, 274), (720, 315))
    picture.arrow((500, 124), (500, 167), (585, 167), (585, 347), (610, 347), dashed=True)
    picture.text(595, 160, "at dispatch, read and copy: the journal", kind="small")
    room(330, 400, 230, "figures/ advice/ views/", "profile, findings, pages", height=58)
    picture.arrow((720, 379), (720, 429), (560, 429))
    picture.text(640, 422, "trace", kind="small", anchor="middle")
    return picture.svg()


def memory_of_a_tile() -> str:
    """What the fullest tile holds of one training step, for three batch sizes."""

    def loss(params: list[jax.Array], images: jax.Array, labels: jax.Array) -> jax.Array:
        *hidden, last = params
        for weights in hidden:
            images = jax.nn.relu(images @ weights)
        return -jnp.mean(jax.nn.log_softmax(images @ last)[jnp.arange(len(labels)), labels])

    def step(params: list[jax.Array], images: jax.Array, labels: jax.Array) -> list[jax.Array]:
        slopes = jax.grad(loss)(params, images, labels)
        return [weights - 0.1 * slope for weights, slope in zip(params, slopes, strict=True)]

    kinds = {"code, stacks": CODE, "parameters": HOST, "values and temporaries": COMPUTE}
    rows: dict[str, dict[str, float]] = {}
    size = TILE_BYTES / 1024
    for batch in (256, 1024, 4096):
        with jax.default_device(jax.devices("ipu")[0]), tilestep.dry_run(), tilestep.profile() as profile:
            params = [jnp.zeros(shape) for shape in ((1024, 2048), (2048, 2048), (2048, 10))]
            jax.jit(step, donate_argnums=0)(params, jnp.zeros((batch, 1024)), jnp.zeros(batch, jnp.int32))
        (program,) = (each for each in profile.programs if each.name == "jit_step")
        by_kind = dict(program.tile_bytes_by_kind)
        parameters = by_kind.pop("resident values", 0)
        values = by_kind.pop("other values and temporaries", 0)
        rows[f"batch {batch:,}"] = dict(zip(kinds, (sum(by_kind.values()) / 1024, parameters / 1024, values / 1024), strict=True))
    first, last = (f"{100 * sum(row.values()) / size:.0f} % at {name}" for name, row in (*rows.items(),)[::2])
    picture = Picture(760, 310, f"Values fill a tile as the batch grows: {first}, {last}")
    picture.text(
        20, 56, "The fullest tile in a training step of a 1024-2048-2048-10 network, float32, parameters donated (bow-2000)", kind="small"
    )
    left, top, width, pitch = 110, 80, 600, 44
    for index, (name, row) in enumerate(rows.items()):
        x, y = float(left), top + index * pitch
        picture.text(left - 10, y + 19, name, kind="small", anchor="end")
        picture.box(left, y, width, 28, corner=0)
        for kind, kib in row.items():
            picture.box(x, y, width * kib / size, 28, fill=kinds[kind], corner=0)
            x += width * kib / size
        picture.text(x + 8, y + 19, f"{sum(row.values()):,.0f} KiB", kind="small")
    picture.axis(left, top + 3 * pitch + 2, width, end=size, step=100, unit=f"KiB of the fullest tile's {size:,.0f}")
    for index, (kind, fill) in enumerate((*kinds.items(), ("free", ""))):
        x = left + (0, 130, 250, 430)[index]
        if fill:
            picture.key(x, 284, fill, kind)
        else:
            picture.box(x, 273, 14, 14, corner=2)
            picture.text(x + 20, 284, kind, kind="small")
    return picture.svg()


FRONT = """\
from functools import partial
import jax, jax.numpy as jnp, numpy as np, tilestep

@partial(jax.jit, donate_argnums=0)
def step(weights, batch):
    loss = lambda w: jnp.mean(jnp.tanh(batch @ w) ** 2)
    return weights - 0.1 * jax.grad(loss)(weights)

ipu = jax.devices("ipu")[0]
batch = np.ones((256, 1024), np.float32)
with jax.default_device(ipu):
    weights = step(jnp.ones((1024, 1024)) / 99, batch)
    with tilestep.profile() as profile:
        for _ in range(3):
            weights = step(weights, batch)
"""
_PHASES: Mapping[str, tuple[str, str]] = {
    "stream-in": (HOST, "batch comes from the host"),
    "exchange": (EXCHANGE, "tiles exchange data"),
    "compute": (COMPUTE, "tiles compute"),
    "sync": (SYNC, "tiles wait at a sync"),
}


def front() -> str:
    """A small program, what one IPU does meanwhile, and what it costs."""
    names: dict[str, object] = {}
    exec(FRONT, names)
    profile = cast(tilestep.Profile, names["profile"])
    clock = profile.machine.clock_hz / 1e6  # cycles in a microsecond
    total = profile.emulated_cycles
    events = [event for event in profile.timeline if event.ipu == profile.busiest_ipu]
    cycles = {kind: count for kind, count in profile.cycles_by_kind.items() if count}
    if unknown := set(cycles) - set(_PHASES):
        raise LookupError(f"the picture has no colour for {', '.join(sorted(unknown))}")
    picture = Picture(
        860,
        500,
        f"The host link limits this program: for {cycles['stream-in'] / total:.0%} of the time a batch is on its way".replace("%", " %"),
    )
    picture.text(20, 66, "The program", kind="name")
    picture.box(20, 78, 480, 264)
    for index, line in enumerate(FRONT.splitlines()):
        picture.text(34, 100 + 16.5 * index, line, kind="code")
    picture.text(530, 66, f"Its bill: {total / clock:,.0f} µs on one IPU", kind="name")
    for index, (kind, (fill, name)) in enumerate(_PHASES.items()):
        y = 100 + index * 50
        picture.text(530, y, name, kind="small")
        picture.text(840, y, f"{cycles[kind] / clock:,.0f} µs, {cycles[kind] / total:.0%}".replace("%", " %"), kind="small", anchor="end")
        picture.box(530, y + 8, 310, 16, corner=0)
        picture.box(530, y + 8, 310 * cycles[kind] / total, 16, fill=fill, corner=0)
    (program,) = profile.programs
    tile = f"{program.peak_tile_bytes / 1024:,.0f} KiB of {TILE_BYTES / 1024:,.0f}"
    picture.text(530, 316, f"memory of the fullest tile: {tile}", kind="small")
    picture.text(20, 372, "Its timeline", kind="name")
    left, width = 70, 760
    end = 100 * -(-total // int(100 * clock))  # in microseconds, the next hundred
    first = min(event.start_cycle for event in events)
    picture.text(left - 10, 404, f"IPU {profile.busiest_ipu}", kind="small", anchor="end")
    for event in events:
        x = left + width * (event.start_cycle - first) / clock / end
        picture.box(x, 386, width * (event.end_cycle - event.start_cycle) / clock / end, 28, fill=_PHASES[event.kind][0], corner=0)
    picture.axis(left, 420, width, end=end, step=100, unit="emulated time in µs")
    picture.text(
        20, 484, "Figures of the emulated machine bow-2000. Within a run, the timeline adds up compute, exchange and sync.", kind="small"
    )
    return picture.svg()


PICTURES: dict[str, Callable[[], str]] = {
    "front.svg": front,
    "superstep.svg": superstep,
    "path-of-a-program.svg": path_of_a_program,
    "memory-of-a-tile.svg": memory_of_a_tile,
    "sync-patterns.svg": sync_patterns,
    "popart-pipeline.svg": pipeline_over_time,
}


def differing(folder: Path) -> list[str]:
    """Names of the pictures in a folder that are not as this script draws them."""
    drawn = {name: draw() for name, draw in PICTURES.items()}
    return [name for name, text in drawn.items() if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; name the pictures that differ")
    options = parser.parse_args(arguments)
    if options.check:
        names = differing(FOLDER)
        for name in names:
            print(f"{FOLDER / name} is not as scripts/drawings.py draws it: run it without --check", file=sys.stderr)
        return 1 if names else 0
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
