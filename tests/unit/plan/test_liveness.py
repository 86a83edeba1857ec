"""Bytes on the fullest tile, on four tiles: each buffer counts a quarter of its size, rounded up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tilestep.errors import TileMemoryError
from tilestep.machine import load_machine
from tilestep.plan.liveness import Buffers, Moment, check_fits, tile_memory
from tilestep.plan.steps import Program, TileMemory
from tilestep.plan.steps import Sequence as Steps

CODE = 1000
IPU = replace(load_machine("bow-2000").ipu, num_tiles=4, code_allowance_bytes=CODE)


class Tiles:
    """Buffers by name, and the memory of moments over them."""

    def __init__(self, **sizes: int) -> None:
        self.buffers = Buffers()
        self.number = {name: self.buffers.new(name, size) for name, size in sizes.items()}

    def __call__(self, *names: str) -> tuple[int, ...]:
        return tuple(self.number[name] for name in names)

    def memory(
        self,
        moments: Sequence[Moment],
        *,
        resident: str = "",
        arguments: str = "",
        constants: str = "",
        results: str = "",
        on_host: str = "",
    ) -> TileMemory:
        return tile_memory(
            moments,
            self.buffers,
            resident=self(*resident.split()),
            arguments=self(*arguments.split()),
            constants=self(*constants.split()),
            results=self(*results.split()),
            on_host=self(*on_host.split()),
            ipu=IPU,
        )


def test_a_value_lives_from_its_definition_to_its_last_use() -> None:
    tiles = Tiles(a=40, b=80, c=4)
    moments = [
        Moment(step="one", writes=tiles("a")),
        Moment(step="two", reads=tiles("a"), writes=tiles("b")),
        Moment(step="three", reads=tiles("b"), writes=tiles("c")),
    ]
    memory = tiles.memory(moments, results="c")
    assert (memory.peak_step, memory.transient_bytes) == ("two", 10 + 20)
    assert memory.peak_bytes == CODE + 30
    assert memory.largest == (("code and stacks", CODE), ("b", 20), ("a", 10))


def test_sizes_are_rounded_up_on_each_tile() -> None:
    tiles = Tiles(a=5)
    assert tiles.memory([Moment(step="one", writes=tiles("a"))]).transient_bytes == 2


def test_an_argument_lives_from_the_start_to_its_last_use_and_a_result_to_the_end() -> None:
    tiles = Tiles(x=400, y=40, big=400)
    moments = [
        Moment(step="use x", reads=tiles("x"), writes=tiles("y")),
        Moment(step="big", writes=tiles("big")),
    ]
    memory = tiles.memory(moments, arguments="x", results="y")
    assert (memory.peak_step, memory.transient_bytes) == ("use x", 110)  # at 'big' x is gone: 10 + 100, and the first peak counts


def test_a_donated_argument_is_resident_beside_the_transient_peak() -> None:
    tiles = Tiles(w=400, g=40)
    memory = tiles.memory(
        [Moment(step="grad", writes=tiles("g")), Moment(step="update", reads=tiles("g", "w"), writes=tiles("w"))], resident="w"
    )
    assert (memory.resident_bytes, memory.transient_bytes, memory.peak_bytes) == (100, 10, CODE + 110)


def test_a_result_in_the_memory_of_its_donated_argument_counts_once() -> None:
    tiles = Tiles(w=400, new=400)
    tiles.buffers.share(*tiles("new", "w"))
    memory = tiles.memory([Moment(step="update", reads=tiles("w"), writes=tiles("new"))], resident="w", results="new")
    assert (memory.resident_bytes, memory.transient_bytes) == (100, 0)


def test_constants_live_all_the_time() -> None:
    tiles = Tiles(c=40, a=80)
    memory = tiles.memory([Moment(step="first", reads=tiles("c")), Moment(step="last", writes=tiles("a"))], constants="c")
    assert (memory.peak_step, memory.transient_bytes) == ("last", 30)


def test_what_lies_in_the_hosts_memory_needs_no_tile() -> None:
    tiles = Tiles(h=4000, a=40)
    memory = tiles.memory([Moment(step="one", reads=tiles("h"), writes=tiles("a"))], arguments="h", on_host="h")
    assert memory.transient_bytes == 10


def test_temporaries_count_only_at_their_step_and_are_named() -> None:
    tiles = Tiles(a=40)
    memory = tiles.memory([Moment(step="one", writes=tiles("a"), temporary_tile_bytes=64), Moment(step="two", reads=tiles("a"))])
    assert (memory.peak_step, memory.transient_bytes) == ("one", 74)
    assert ("temporaries of one", 64) in memory.largest


def test_a_pass_in_place_takes_over_an_operand_that_dies() -> None:
    tiles = Tiles(a=400, b=400, c=400)

    def pair(*, in_place: bool) -> int:
        moments = [
            Moment(step="one", writes=tiles("a")),
            Moment(step="two", reads=tiles("a"), writes=tiles("b"), in_place=in_place),
        ]
        return tiles.memory(moments, results="b").transient_bytes

    assert (pair(in_place=False), pair(in_place=True)) == (200, 100)


def test_a_pass_in_place_does_not_take_over_what_is_read_later_or_is_smaller() -> None:
    tiles = Tiles(a=400, small=40, b=400)
    moments = [
        Moment(step="one", writes=tiles("a", "small")),
        Moment(step="two", reads=tiles("a", "small"), writes=tiles("b"), in_place=True),
        Moment(step="three", reads=tiles("a")),
    ]
    assert tiles.memory(moments, results="b").transient_bytes == 100 + 10 + 100


def test_a_loop_holds_what_it_carries_beside_the_peak_of_its_body() -> None:
    tiles = Tiles(carried=400, inside=80, next=400, outside=40)
    tiles.buffers.share(*tiles("next", "carried"))
    body = (
        Moment(step="body", reads=tiles("carried"), writes=tiles("inside")),
        Moment(step="end", reads=tiles("inside"), writes=tiles("next")),
    )
    moments = [
        Moment(step="before", writes=tiles("outside", "carried")),
        Moment(step="loop", reads=tiles("carried"), writes=tiles("carried"), inner=(body,)),
        Moment(step="after", reads=tiles("outside", "carried")),
    ]
    memory = tiles.memory(moments)
    assert (memory.peak_step, memory.transient_bytes) == ("body", 100 + 20 + 10)


def test_arms_of_a_branch_do_not_add_up() -> None:
    tiles = Tiles(a=400, b=800, r=4)
    arms = ((Moment(step="left", writes=tiles("a")),), (Moment(step="right", writes=tiles("b")),))
    memory = tiles.memory([Moment(step="branch", writes=tiles("r"), inner=arms)], results="r")
    assert (memory.peak_step, memory.transient_bytes) == ("right", 200)


def test_a_program_that_does_not_fit_is_an_error_that_names_step_and_parts() -> None:
    machine = load_machine("bow-2000")
    available = machine.ipu.tile.sram_bytes
    memory = TileMemory(
        peak_bytes=available + 1,
        peak_step="dot.3",
        code_bytes=CODE,
        resident_bytes=0,
        transient_bytes=available + 1 - CODE,
        largest=(("params['w']", available + 1 - CODE), ("code and stacks", CODE)),
    )
    program = Program(name="p", num_ipus=1, body=Steps(), arguments=(), results=(), memory=memory)
    with pytest.raises(TileMemoryError, match=r"superstep 'dot.3' but has 638,976 B \(1 B over\)\n  largest: params\['w'\]") as caught:
        check_fits(program, machine)
    assert caught.value.needed_bytes == available + 1
    check_fits(replace(program, memory=replace(memory, peak_bytes=available)), machine)
