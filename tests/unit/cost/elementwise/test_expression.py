"""Elementwise passes: sums by hand, fusion, dtypes."""

from pathlib import Path

import pytest

from tests.unit.cost.machines import BOW, C600, TOY, array, tiles, work
from tilestep.cost import ELEMENTWISE, StepCost, elementwise_fusion, estimate, fallback
from tilestep.cost.elementwise.expression import Moves, dearest
from tilestep.cost.elementwise.rates import BUNDLES, SOFTWARE_FUNCTION, rate
from tilestep.cost.elementwise.software_f64 import F64_FUNCTIONS
from tilestep.program.work import DTYPE_BITS

COST_MODEL = Path(__file__).parents[4] / "docs" / "reference" / "cost-model.md"


def one(opcode: str, dtype: str, size: int, *, inputs: int = 2) -> StepCost:
    shape = array(f"{dtype}[{size}]")
    return elementwise_fusion([(opcode, dtype)], size=size, inputs=[shape] * inputs, outputs=[shape], ipu=TOY)


def test_add_of_floats_by_hand() -> None:
    # 4,800 elements on 4 tiles x 6 workers: 200 a worker, 100 vectors; each one bundle to add, one that loads both, one to store.
    cost = one("add", "f32", 4800)
    assert cost.compute_cycles == 11 + 6 * (20 + 100 * 3)
    assert (cost.exchange_cycles, cost.sync_cycles, cost.flops) == (0, 1000, 4800)


def test_a_machine_with_8_bit_floats_converts_them_by_an_instruction() -> None:
    # 200 elements a worker. A bundle converts 8 halves or 4 8-bit floats, loads two vectors, stores one.
    ipu = tiles(4, C600)
    narrowed = estimate(work("convert", "f16[4800]", "f8e4m3fnuz[4800]"), ipu)
    assert narrowed.compute_cycles == 11 + 6 * (20 + 25 + 25 + 25)
    assert narrowed.assumptions == ()
    assert estimate(work("convert", "f8e5m2[4800]", "f16[4800]"), ipu).compute_cycles == 11 + 6 * (20 + 50 + 13 + 50)
    assert estimate(work("convert", "f32[4800]", "f8e4m3[4800]"), ipu).compute_cycles == 11 + 6 * (20 + 75 + 50 + 25)
    assert estimate(work("convert", "f8e4m3[4800]", "f32[4800]"), ipu).compute_cycles == 11 + 6 * (20 + 150 + 13 + 100)
    # Copies convert nothing, arithmetic converts at each load and store, and formats that the machine does not have are as elsewhere.
    shape = array("f8e4m3[4800]")
    copied = elementwise_fusion([("copy", "f8e4m3")], size=4800, inputs=[shape], outputs=[shape], ipu=ipu)
    assert copied.compute_cycles == 11 + 6 * (20 + 13 + 25)
    computed = elementwise_fusion([("add", "f8e4m3")], size=4800, inputs=[shape] * 2, outputs=[shape], ipu=ipu)
    assert computed.compute_cycles == 11 + 6 * (20 + 50 + 25 + 25 + 3 * 50)
    assert "8-bit" in " ".join(computed.assumptions)
    other = work("convert", "f16[4800]", "f8e3m4[4800]")
    assert estimate(other, ipu).compute_cycles == estimate(other, tiles(4)).compute_cycles > narrowed.compute_cycles


def test_fused_expression_loads_and_stores_once() -> None:
    shape = array("f32[4800]")
    ops = [("multiply", "f32"), ("add", "f32"), ("tanh", "f32")]
    fused = elementwise_fusion(ops, size=4800, inputs=[shape] * 3, outputs=[shape], ipu=TOY)
    # 300 vectors are loaded, one a bundle; a bundle closes each turn of the loop.
    assert fused.compute_cycles == 11 + 6 * (20 + 100 * (1 + 1 + 10) + 300 + 100 + 100)
    assert fused.flops == 3 * 4800
    apart = one("multiply", "f32", 4800).cycles + one("add", "f32", 4800).cycles + one("tanh", "f32", 4800, inputs=1).cycles
    assert fused.cycles < apart


def test_operands_that_move_are_exchanged_first() -> None:
    shape = array("f32[4800]")
    cost = elementwise_fusion([("add", "f32")], size=4800, inputs=[shape] * 2, outputs=[shape], ipu=TOY, moves=Moves(moved_bytes=19_200))
    assert (cost.exchange_bytes, cost.exchange_cycles, cost.sync_cycles) == (4800, 1200, 1100)
    assert cost.temporary_tile_bytes == 4800


def test_a_small_operand_is_sent_to_all_tiles_but_no_more_than_a_tile_needs() -> None:
    full = array("f32[40,100]")
    row = elementwise_fusion([("add", "f32")], size=4000, inputs=[full, array("f32[100]")], outputs=[full], ipu=TOY)
    assert row.exchange_bytes == 400
    long = elementwise_fusion([("add", "f32")], size=4000, inputs=[full, array("f32[3000]")], outputs=[full], ipu=TOY)
    assert long.exchange_bytes == 4000
    scalar = elementwise_fusion([("add", "f32")], size=4000, inputs=[full, array("f32[]")], outputs=[full], ipu=TOY)
    assert scalar.exchange_bytes == 4


def test_no_elements_are_no_superstep() -> None:
    assert one("add", "f32", 0).cycles == 0


def test_a_power_of_three_doubles_by_hand() -> None:
    # One element a worker: 87 sums and products of 40 bundles, 2 quotients of 400; a sum; a load, a store, the end of the loop.
    shape = array("f64[3]")
    cost = elementwise_fusion([("power", "f64"), ("add", "f64")], size=3, inputs=[shape], outputs=[shape], ipu=BOW)
    assert cost.compute_cycles == 11 + 6 * (20 + 87 * 40 + 2 * 400 + 40 + 3) == 26_069
    assert any("functions of f64 are counted out" in sentence for sentence in cost.assumptions)
    assert not any("vector routine" in sentence for sentence in one("sine", "f64", 8).assumptions)


def test_functions_of_doubles_are_dearer_than_those_of_floats_and_than_a_quotient_of_doubles() -> None:
    for opcode in F64_FUNCTIONS:
        double, single = rate(opcode, "f64"), rate(opcode, "f32")
        assert double.bundles / double.elements > single.bundles / single.elements, opcode
        assert double.bundles > rate("divide", "f64").bundles, opcode
        assert rate(opcode, "c128").bundles == 2 * 4 * double.bundles  # four times both components


def test_what_has_no_instruction_in_f32_either_is_counted_out_in_f64() -> None:
    arithmetic = {"add", "subtract", "multiply", "negate", "abs", "divide", "remainder", "sqrt", "rsqrt"}
    dear = {opcode for opcode in BUNDLES if rate(opcode, "f64").bundles >= rate("divide", "f64").bundles}
    assert dear - arithmetic == set(F64_FUNCTIONS)


def test_the_cost_model_shows_each_count_of_a_function_of_doubles() -> None:
    _, _, table = COST_MODEL.read_text(encoding="utf-8").partition("| function | n | d | bundles | arguments |\n")
    table, _, _ = table.partition("\n\n")
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    shown = {name: (int(row[1]), int(row[2]), row[3]) for row in rows if len(row) == 5 and row[1].isdigit() for name in row[0].split(", ")}
    assert shown == {
        opcode: (arithmetic, divisions, f"{40 * arithmetic + 400 * divisions:,}")
        for opcode, (arithmetic, divisions) in F64_FUNCTIONS.items()
    }


def test_the_dearest_operation_of_a_pass_is_that_with_most_bundles_an_element() -> None:
    assert dearest([("power", "f32"), ("add", "f32")]) == 0
    assert dearest([("multiply", "f16"), ("tanh", "f16"), ("divide", "f32"), ("add", "f32")]) == 2
    assert dearest([("divide", "f16"), ("exponential", "f64"), ("divide", "f32")]) == 1
    assert dearest([("add", "f32"), ("multiply", "f32"), ("subtract", "f32")]) == 2  # of equals the last
    assert dearest([("copy", "f32")]) == 0


def test_what_was_assumed_is_said() -> None:
    assert one("add", "f32", 8).assumptions == ()
    assert any("f64 is emulated" in sentence for sentence in one("add", "f64", 8).assumptions)
    assert any("bf16 is converted" in sentence for sentence in one("add", "bf16", 8).assumptions)
    assert any(str(SOFTWARE_FUNCTION) in sentence for sentence in one("sine", "f32", 8).assumptions)


def test_every_operation_has_a_rate_for_every_dtype() -> None:
    assert set(BUNDLES) == ELEMENTWISE
    for opcode in ELEMENTWISE:
        for dtype in DTYPE_BITS:
            price = rate(opcode, dtype)
            assert price.bundles >= 0
            assert price.elements >= 1


def test_an_unknown_operation_does_not_fuse() -> None:
    with pytest.raises(KeyError, match="frobnicate"):
        elementwise_fusion([("frobnicate", "f32")], size=8, inputs=[], outputs=[], ipu=TOY)


def test_compare_is_priced_in_the_dtype_that_it_reads() -> None:
    wide = estimate(work("compare", "f64[1000] f64[1000]", "pred[1000]"), BOW)
    narrow = estimate(work("compare", "f32[1000] f32[1000]", "pred[1000]"), BOW)
    assert wide.compute_cycles > narrow.compute_cycles


def test_map_applies_its_body() -> None:
    cost = estimate(work("map", "f32[4800] f32[4800]", "f32[4800]", body="add"), TOY)
    assert cost.compute_cycles == one("add", "f32", 4800).compute_cycles


def test_fallback_is_marked_and_moves_everything() -> None:
    cost = fallback(work("custom-call:mystery", "f32[400]", "f32[400]"), TOY)
    assert cost.fallback
    assert cost.exchange_bytes == 800
    assert cost.compute_cycles == 11 + 6 * (20 + 17)
    assert "'custom-call:mystery' has no estimator" in cost.assumptions[0]
    assert estimate(work("custom-call:mystery", "f32[400]", "f32[400]"), TOY) == cost
    assert estimate(work("custom-call:lapack_sgetrf_ffi", "", ""), TOY).fallback  # called by hand, with nothing to factor
    assert estimate(work("custom-call:lapack_sgetrf_ffi", "f32[4]", "f32[4]"), TOY).fallback
