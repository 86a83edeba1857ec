"""Where values lie, and what loops keep in place."""

from __future__ import annotations

from tests.golden.texts import clean, hlo_text
from tilestep.cost import ELEMENTWISE
from tilestep.plan.fuse import fusible_in
from tilestep.plan.mapping import ANYWHERE, Leaf, keeping_layout, place_fusion
from tilestep.program import ArrayShape, Computation, parse_hlo

FULL, ROW = ArrayShape("f32", (8, 4)), ArrayShape("f32", (4,))


def loop_body(name: str) -> Computation:
    """The body of the one loop of a stored module, cleaned."""
    module = clean(parse_hlo(hlo_text(name)))
    (loop,) = [i for i in module.entry.instructions if i.opcode == "while"]
    return module.computations[loop.called("body")[0]]


def test_a_pass_runs_where_its_first_operand_lies_and_others_move_there() -> None:
    placed = place_fusion(
        "p", [(Leaf(0, "a"), FULL), (Leaf(1, "b"), FULL), (Leaf(2, ANYWHERE), FULL), (Leaf(3, "c"), ROW)], 32, frozenset()
    )
    assert (placed.home, placed.moved_bytes) == ("a", 128)


def test_a_pass_comes_to_the_result_of_a_product() -> None:
    placed = place_fusion("p", [(Leaf(0, "a"), FULL), (Leaf(1, "dot"), FULL)], 32, frozenset({"dot"}))
    assert (placed.home, placed.moved_bytes) == ("dot", 128)


def test_a_pass_over_arguments_is_a_home_of_its_own_and_moves_nothing() -> None:
    placed = place_fusion("p", [(Leaf(0, ANYWHERE), FULL), (Leaf(1, ANYWHERE), FULL)], 32, frozenset())
    assert (placed.home, placed.moved_bytes) == ("p", 0)


def test_a_training_loop_keeps_its_weights_and_batch_in_place() -> None:
    body = loop_body("train_loop")
    kept = keeping_layout(body, fusible_in(body, ELEMENTWISE))
    assert kept == set(range(6))  # counter, b1, w1, w2, x, y


def test_a_hidden_state_that_goes_through_a_product_does_not_stay_in_place() -> None:
    body = loop_body("scan")
    kept = keeping_layout(body, fusible_in(body, ELEMENTWISE))
    assert kept == {0, 2, 3}  # counter, outputs written in place, inputs; not the state at 1
