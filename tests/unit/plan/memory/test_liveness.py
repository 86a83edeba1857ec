"""Bytes on the fullest of four tiles. What has 512 bytes or more lies on all of them, a quarter each; 128 bytes lie on one tile."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.golden.texts import module_text
from tests.together import each
from tilestep.errors import TileMemoryError
from tilestep.machine import load_machine
from tilestep.plan import lower
from tilestep.plan.memory.liveness import check_fits, tile_memory
from tilestep.plan.memory.timeline import Buffers, EndBuffers, MemoryMoment, occupancy
from tilestep.plan.steps import Program, Series, TileMemory
from tilestep.program import parse_hlo

CODE, FIXED = 1000, 50
TILES = 4


class Tiles:
    """Buffers by name, and the memory of moments over them."""

    def __init__(self, **sizes: int) -> None:
        self.buffers = Buffers(TILES)
        self.number = {name: self.buffers.new(name, size) for name, size in sizes.items()}

    def __call__(self, *names: str) -> tuple[int, ...]:
        return tuple(self.number[name] for name in names)

    def memory(
        self,
        moments: Sequence[MemoryMoment],
        *,
        resident: str = "",
        arguments: str = "",
        constants: str = "",
        results: str = "",
        on_host: str = "",
    ) -> TileMemory:
        found = tile_memory(
            occupancy(
                moments,
                self.buffers,
                EndBuffers(
                    resident=self(*resident.split()),
                    arguments=self(*arguments.split()),
                    constants=self(*constants.split()),
                    results=self(*results.split()),
                ),
                code={"vertex code": CODE - 200, "exchange code": 200},
                fixed={"stacks": FIXED},
                on_host=self(*on_host.split()),
            )
        )
        assert found.peak_bytes == found.code_bytes + found.fixed_bytes + found.resident_bytes + found.transient_bytes
        assert found.peak_bytes == sum(size for _, size in found.by_kind) == sum(size for _, size in found.largest)
        return found


def test_a_value_lives_from_its_definition_to_its_last_use() -> None:
    tiles = Tiles(a=800, b=1600, c=640)
    moments = [
        MemoryMoment(step="one", writes=tiles("a")),
        MemoryMoment(step="two", reads=tiles("a"), writes=tiles("b")),
        MemoryMoment(step="three", reads=tiles("b"), writes=tiles("c")),
    ]
    memory = tiles.memory(moments, results="c")
    assert (memory.peak_step, memory.transient_bytes) == ("two", 200 + 400)
    assert memory.peak_bytes == CODE + FIXED + 600
    assert memory.always == (("vertex code", 800), ("exchange code", 200), ("stacks", 50))
    assert memory.alive == (("b", 400), ("a", 200))
    assert memory.largest == (("vertex code", 800), ("b", 400), ("a", 200), ("exchange code", 200), ("stacks", 50))


def test_an_array_in_blocks_counts_what_its_fullest_tile_has() -> None:
    buffers = Buffers(TILES)
    product = buffers.new("product", 800, block_bytes=400)
    moments = [MemoryMoment(step="dot", writes=(product,))]
    held = occupancy(moments, buffers, EndBuffers(), code={}, fixed={})
    found = tile_memory(held)
    assert (found.peak_bytes, found.tile, found.values_bytes) == (400, 0, 800)


def test_an_argument_lives_from_the_start_to_its_last_use_and_a_result_to_the_end() -> None:
    tiles = Tiles(x=4000, y=640, big=4000)
    moments = [
        MemoryMoment(step="use x", reads=tiles("x"), writes=tiles("y")),
        MemoryMoment(step="big", writes=tiles("big")),
    ]
    memory = tiles.memory(moments, arguments="x", results="y")
    assert (memory.peak_step, memory.transient_bytes) == ("use x", 1160)  # at 'big' x is gone: as much, and the first peak counts


def test_a_donated_argument_is_resident_beside_the_transient_peak() -> None:
    tiles = Tiles(w=4000, g=640)
    memory = tiles.memory(
        [MemoryMoment(step="grad", writes=tiles("g")), MemoryMoment(step="update", reads=tiles("g", "w"), writes=tiles("w"))], resident="w"
    )
    assert (memory.resident_bytes, memory.transient_bytes, memory.peak_bytes) == (1000, 160, CODE + FIXED + 1160)


def test_a_result_in_the_memory_of_its_donated_argument_counts_once() -> None:
    tiles = Tiles(w=4000, new=4000)
    tiles.buffers.share(*tiles("new", "w"))
    memory = tiles.memory([MemoryMoment(step="update", reads=tiles("w"), writes=tiles("new"))], resident="w", results="new")
    assert (memory.resident_bytes, memory.transient_bytes) == (1000, 0)


def test_constants_live_all_the_time_and_are_loaded_with_the_code() -> None:
    tiles = Tiles(c=640, a=800)
    memory = tiles.memory([MemoryMoment(step="first", reads=tiles("c")), MemoryMoment(step="last", writes=tiles("a"))], constants="c")
    assert (memory.peak_step, memory.transient_bytes, memory.code_bytes) == ("last", 200, CODE + 160)
    assert ("constants", 160) in memory.always


def test_what_lies_in_the_hosts_memory_needs_no_tile() -> None:
    tiles = Tiles(h=4000, a=640)
    memory = tiles.memory([MemoryMoment(step="one", reads=tiles("h"), writes=tiles("a"))], arguments="h", results="h", on_host="h")
    assert memory.transient_bytes == 160


def test_a_pass_in_place_takes_over_an_operand_that_dies() -> None:
    tiles = Tiles(a=4000, b=4000)

    def pair(*, in_place: bool) -> int:
        moments = [
            MemoryMoment(step="one", writes=tiles("a")),
            MemoryMoment(step="two", reads=tiles("a"), writes=tiles("b"), in_place=in_place),
        ]
        return tiles.memory(moments, results="b").transient_bytes

    assert (pair(in_place=False), pair(in_place=True)) == (2000, 1000)


def test_a_pass_in_place_does_not_take_over_what_is_read_later_or_is_smaller() -> None:
    tiles = Tiles(a=4000, small=640, b=4000)
    moments = [
        MemoryMoment(step="one", writes=tiles("a", "small")),
        MemoryMoment(step="two", reads=tiles("a", "small"), writes=tiles("b"), in_place=True),
        MemoryMoment(step="three", reads=tiles("a")),
    ]
    assert tiles.memory(moments, results="b").transient_bytes == 1000 + 160 + 1000


def test_one_operand_that_dies_has_room_for_one_result_only() -> None:
    tiles = Tiles(a=4000, b=4000, c=4000)
    moments = [
        MemoryMoment(step="one", writes=tiles("a")),
        MemoryMoment(step="two", reads=tiles("a"), writes=tiles("b", "c"), in_place=True),
        MemoryMoment(step="three", reads=tiles("b", "c")),
    ]
    assert tiles.memory(moments).transient_bytes == 2000


def test_a_loop_holds_what_it_carries_beside_the_peak_of_its_body() -> None:
    tiles = Tiles(carried=4000, inside=800, next=4000, outside=640)
    tiles.buffers.share(*tiles("next", "carried"))
    body = (
        MemoryMoment(step="body", reads=tiles("carried"), writes=tiles("inside")),
        MemoryMoment(step="end", reads=tiles("inside"), writes=tiles("next")),
    )
    moments = [
        MemoryMoment(step="before", writes=tiles("outside", "carried")),
        MemoryMoment(step="loop", reads=tiles("carried"), writes=tiles("carried"), inner=(body,)),
        MemoryMoment(step="after", reads=tiles("outside", "carried")),
    ]
    memory = tiles.memory(moments)
    assert (memory.peak_step, memory.transient_bytes) == ("body", 1000 + 200 + 160)


def test_arms_of_a_branch_do_not_add_up() -> None:
    tiles = Tiles(a=4000, b=8000, r=640)
    arms = ((MemoryMoment(step="left", writes=tiles("a")),), (MemoryMoment(step="right", writes=tiles("b")),))
    memory = tiles.memory([MemoryMoment(step="branch", writes=tiles("r"), inner=arms)], results="r")
    assert (memory.peak_step, memory.transient_bytes) == ("right", 2000)


@each("seed", range(40))
def test_the_peak_is_the_largest_live_set_found_by_brute_force(seed: int) -> None:
    """Straight programs of random steps: tile by tile and step by step, from the sizes alone."""
    drawn = random.Random(seed)
    sizes = {f"v{i}": drawn.choice((0, 4, 100, 130, 300, 512, 1000, 5000)) for i in range(12)}
    tiles = Tiles(**sizes)
    names = list(sizes)
    steps: list[tuple[list[str], list[str], int]] = []
    for made in range(0, len(names), 2):
        reads = drawn.sample(names[:made], k=min(made, drawn.randrange(3)))
        steps.append((reads, names[made : made + 2], drawn.choice((0, 0, 20, 700))))
    results = drawn.sample(names, k=2)
    moments = [
        MemoryMoment(step=f"s{i}", reads=tiles(*reads), writes=tiles(*writes), temporary_tile_bytes=extra)
        for i, (reads, writes, extra) in enumerate(steps)
    ]
    memory = tiles.memory(moments, results=" ".join(results))

    on_tile: dict[str, list[int]] = {}
    tile = 0
    for name, size in sizes.items():  # from the rules in docs/reference/memory.md
        share = -(-max(-(-size // TILES), min(128, size)) // 8) * 8
        count = min(TILES, -(-size // share)) if size else 0
        on_tile[name] = [0] * TILES
        for place in range(count):
            on_tile[name][(tile * (count < TILES) + place) % TILES] = share
        tile = (tile + count) % TILES if count < TILES else tile
    most = plain = 0
    for now, (_, _, extra) in enumerate(steps):
        alive = [
            name
            for born, (_, writes, _) in enumerate(steps)
            for name in writes
            if born <= now and (name in results or born == now or any(name in steps[later][0] for later in range(now, len(steps))))
        ]
        most = max(most, max(sum(on_tile[name][t] for name in alive) for t in range(TILES)) + -(-extra // 8) * 8)
        plain = max(plain, sum(sizes[name] for name in alive) // TILES)
    assert memory.transient_bytes == most
    assert memory.transient_bytes >= plain  # never less than the mean of what is alive


def test_a_program_that_does_not_fit_is_an_error_that_names_tile_step_and_parts() -> None:
    machine = load_machine("bow-2000")
    available = machine.ipu.tile.sram_bytes
    memory = TileMemory(
        peak_bytes=available + 1,
        peak_step="dot.3",
        tile=17,
        code_bytes=CODE,
        resident_bytes=0,
        transient_bytes=available + 1 - CODE,
        alive=(("params['w']", available + 1 - CODE),),
        always=(("exchange code", CODE),),
    )
    program = Program(name="p", num_ipus=1, body=Series(), arguments=(), results=(), memory=memory)
    with pytest.raises(TileMemoryError) as caught:
        check_fits(program, machine)
    first, second, *rest = str(caught.value).splitlines()
    assert first == "tile 17 needs 638,977 B in superstep 'dot.3' but has 638,976 B (1 B over)"
    assert second == "  largest: params['w'] 637,977 B, exchange code 1,000 B"
    assert rest[0].startswith("  try: `tilestep run --dry-run` with the program says what would make it fit, ")
    error = caught.value
    assert (error.tile, error.superstep, error.needed_bytes, error.available_bytes) == (17, "dot.3", available + 1, available)
    check_fits(replace(program, memory=replace(memory, peak_bytes=available)), machine)


def test_code_must_lie_where_a_tile_can_execute_it() -> None:
    machine = load_machine("bow-2000")
    available = machine.ipu.tile.executable_bytes
    assert available == 208 * 1024
    code = (("exchange code", available - 1000), ("vertex state", 5_000), ("vertex code", 1_000), ("constants", 50_000))
    memory = TileMemory(
        peak_bytes=300_000, peak_step="dot.3", code_bytes=available + 55_000, resident_bytes=0, transient_bytes=0, always=code
    )
    program = Program(name="p", num_ipus=1, body=Series(), arguments=(), results=(), memory=memory)
    check_fits(program, machine)
    larger = replace(memory, always=(*code, ("control code", 8)))
    with pytest.raises(TileMemoryError) as caught:
        check_fits(replace(program, memory=larger), machine)
    first, second, third, fourth = str(caught.value).splitlines()
    assert first == "each tile needs 213,000 B of code but can execute 212,992 B (8 B over)"
    assert second == "  largest: exchange code 211,992 B, vertex code 1,000 B, control code 8 B"
    assert third.startswith(
        "  try: `tilestep run --dry-run` with the program says what would make it fit, and what that frees; POPLAR_ENGINE"
    )
    assert fourth == """  report: POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true"}' keeps the program's memory step by step"""
    reported = caught.value.reported("/tmp/memory.txt")
    assert str(reported).splitlines() == [first, second, third, "  report: /tmp/memory.txt"]
    assert {**vars(reported), "report": ""} == vars(caught.value)
    assert (caught.value.of_code, caught.value.needed_bytes, caught.value.available_bytes) == (True, 213_000, 212_992)


def test_a_product_of_any_size_needs_its_operands_and_its_result() -> None:
    """Of 2^22 x 2^22 floats a tile has 2^46 / 1,472 bytes, and of 2^24 x 2^24 floats 16 times as many."""
    machine = load_machine("bow-2000")
    for power in (22, 24):
        square = f"f32[{1 << power},{1 << power}]{{1,0}}"
        product = "dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        text = module_text(f"  %a = {square} parameter(0)\n  %b = {square} parameter(1)\n  ROOT %r = {square} {product}")
        with pytest.raises(TileMemoryError) as caught:
            check_fits(lower(parse_hlo(text), machine, name="p", num_ipus=1), machine)
        largest = dict(caught.value.largest)
        for name in ("arg0", "arg1", "r"):
            assert largest[name] == pytest.approx((4 << 2 * power) / 1472, rel=1e-4)  # whole blocks
        assert caught.value.needed_bytes >= 3 * (4 << 2 * power) // 1472
