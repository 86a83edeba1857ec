"""From HLO to the tree of steps: control flow, collectives, host calls, arguments and results."""

import pytest

from tests.golden.texts import hlo_text, module_text
from tilestep.errors import HloError
from tilestep.machine import load_machine
from tilestep.plan import Branch, Collective, HostCall, Loop, Program, Series, Superstep, lower
from tilestep.plan.steps import Node
from tilestep.program import parse_hlo

MACHINE = load_machine("bow-2000")


def lowered(text: str, *, num_ipus: int = 1) -> Program:
    return lower(parse_hlo(text), MACHINE, name="program", num_ipus=num_ipus)


def stored(name: str, *, num_ipus: int = 1) -> Program:
    return lowered(hlo_text(name), num_ipus=num_ipus)


def families(node: Node) -> list[str]:
    """The supersteps' families in order; of loops and branches what is inside."""
    match node:
        case Series(nodes=nodes) | Branch(arms=nodes):
            return [family for inner in nodes for family in families(inner)]
        case Loop(body=body):
            return families(body)
        case Superstep(family=family):
            return [family]
        case _:
            return [type(node).__name__]


def test_a_training_step_is_matmuls_fused_passes_and_reductions_in_order() -> None:
    program = stored("mlp_train_step")
    assert families(program.body) == [
        "matmul", "elementwise",  # hidden = relu(x @ w1 + b1)
        "matmul", "elementwise",  # error, its square and its gradient
        "matmul", "elementwise", "reduce", "elementwise",  # gradient through relu, of b1, new b1
        "matmul", "elementwise",  # new w1
        "matmul", "elementwise",  # new w2
        "reduce",  # loss, scaled by the reduction itself
    ]  # fmt: skip
    assert program.fallback_ops == ()
    assert program.sites == ()
    assert program.flops > 2 * 16 * (64 * 32 * 2 + 32 * 8 * 3)  # at least its five products


def test_steps_are_named_after_the_operation_that_the_author_wrote() -> None:
    first = stored("mlp_train_step").body.nodes[0]
    assert isinstance(first, Superstep)
    assert first.scope == "jit(mlp_step)/jvp()/dot_general"


def test_a_fused_pass_is_named_by_its_dearest_operation() -> None:
    lines = """
  %x = f64[3]{0} parameter(0)
  %a = f64[3]{0} constant({1, 2, 3})
  %p = f64[3]{0} power(%x, %a), metadata={op_name="jit(f)/pow"}
  ROOT %r = f64[3]{0} add(%p, %a), metadata={op_name="jit(f)/add"}"""
    (step,) = lowered(module_text(lines)).body.nodes
    assert isinstance(step, Superstep)
    assert (step.name, step.scope) == ("p", "jit(f)/pow")


def test_arguments_and_results_know_each_other() -> None:
    program = stored("mlp_train_step")
    assert [(a.name, a.shape, a.size_bytes, a.result) for a in program.arguments] == [
        ("params['b1']", "f32[32]", 128, 0),
        ("params['w1']", "f32[64,32]", 8192, 1),
        ("params['w2']", "f32[32,8]", 1024, 2),
        ("x", "f32[16,64]", 4096, None),
        ("y", "f32[16,8]", 512, None),
    ]
    assert [(r.shape, r.size_bytes, r.argument) for r in program.results] == [
        ("f32[32]", 128, 0),
        ("f32[64,32]", 8192, 1),
        ("f32[32,8]", 1024, 2),
        ("f32[]", 4, None),
    ]
    # 128 bytes of the first lie on tile 0, 8,192 of the second on 64 tiles behind it, 1,024 of the third on eight behind those.
    assert (program.memory.tile, program.memory.resident_bytes) == (0, 128)


def test_a_counted_loop_keeps_its_trips_and_pays_for_neither_condition_nor_counter() -> None:
    program = stored("train_loop")
    (loop,) = [node for node in program.body.nodes if isinstance(node, Loop)]
    assert (loop.trips, loop.site) == (100, None)
    assert families(loop.body) == [
        "matmul", "elementwise", "matmul", "elementwise", "matmul", "elementwise", "reduce", "elementwise",
        "matmul", "elementwise", "matmul", "elementwise",
    ]  # fmt: skip
    assert program.sites == ()
    assert program.flops > 100 * 2 * 16 * (64 * 32 * 2 + 32 * 8 * 3)


def test_weights_that_a_loop_carries_stay_in_the_place_of_their_donated_arguments() -> None:
    memory = stored("train_loop").memory
    assert (memory.tile, memory.resident_bytes) == (0, 128)  # each of them lies on tiles of its own


def test_a_loop_that_depends_on_data_has_a_site_and_includes_its_condition() -> None:
    program = stored("while_data")
    (loop,) = [node for node in program.body.nodes if isinstance(node, Loop)]
    assert (loop.trips, loop.site) == (None, 0)
    (branch,) = [node for node in loop.body.nodes if isinstance(node, Branch)]
    assert (branch.site, len(branch.arms)) == (1, 2)
    assert program.sites == (0, 1)
    last = loop.body.nodes[-1]
    assert isinstance(last, Superstep)
    assert last.scope.endswith("/cond/ne")
    assert not any("assumed" in sentence and "trip" in sentence for sentence in program.assumptions)


def test_a_loop_or_branch_that_nobody_counts_is_a_listed_assumption() -> None:
    text = hlo_text("while_data").replace("tilestep.site", "other")
    program = lowered(text)
    assert program.sites == ()
    assert any(s.startswith("loop 'call' (jit(collatz)/while) runs as often as its data says: one trip") for s in program.assumptions)
    assert any("its dearest arm assumed" in s for s in program.assumptions)


def test_a_site_that_is_no_number_is_an_error() -> None:
    with pytest.raises(HloError, match=r"tilestep.site of 'cond.1.clone' is 'x', expected a whole number"):
        lowered(hlo_text("cond").replace('tilestep.site="0"', 'tilestep.site="x"'))


def test_arms_of_a_branch_keep_their_order() -> None:
    (branch,) = [node for node in stored("cond").body.nodes if isinstance(node, Branch)]
    assert branch.site == 0
    assert [families(arm) for arm in branch.arms][:2] == [["elementwise"], ["matmul"]]


def test_the_true_arm_of_a_conditional_on_a_truth_value_is_arm_0() -> None:
    arms = "\n\n".join(
        f"%{name} (a: f32[4]) -> f32[4] {{\n  %a = f32[4]{{0}} parameter(0)\n  ROOT %{name}.r = f32[4]{{0}} {opcode}(%a)\n}}"
        for name, opcode in (("yes", "tanh"), ("no", "negate"))
    )
    lines = """
  %p = pred[] parameter(0)
  %x = f32[4]{0} parameter(1)
  ROOT %c = f32[4]{0} conditional(%p, %x, %x), true_computation=%yes, false_computation=%no"""
    (branch,) = lowered(module_text(lines, computations=arms)).body.nodes
    assert isinstance(branch, Branch)
    assert [arm.nodes[0].name for arm in branch.arms if isinstance(arm.nodes[0], Superstep)] == ["yes.r", "no.r"]


def test_collectives_have_kind_size_groups_and_pairs() -> None:
    found = [node for node in stored("psum", num_ipus=4).body.nodes if isinstance(node, Collective)]
    everyone = ((0, 1, 2, 3),)
    assert [(c.kind, c.size_bytes, c.groups, c.pairs) for c in found] == [
        ("all-reduce", 2 * 16 * 4, everyone, ()),
        ("all-gather", 4 * 2 * 16 * 4, everyone, ()),
        ("reduce-scatter", 4 * 16 * 4, everyone, ()),
        ("collective-permute", 2 * 16 * 4, ((0, 1, 2),), ((0, 1), (1, 2))),
        ("all-reduce", 2 * 16 * 2, ((0, 1), (2, 3)), ()),  # bf16
    ]
    assert all(c.compute_cycles > 0 for c in found if c.kind in ("all-reduce", "reduce-scatter"))


def test_a_collective_of_one_device_exchanges_nothing() -> None:
    lines = """
  %x = f32[4]{0} parameter(0)
  %a = f32[4]{0} all-reduce(%x), replica_groups={{0}}, to_apply=%add
  ROOT %b = f32[4]{0} collective-permute(%a), source_target_pairs={{0,0}}"""
    add = "%add (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %s = f32[] add(%a, %b)\n}"
    assert lowered(module_text(lines, computations=add)).body == Series()


def test_callbacks_stop_for_the_host_with_the_bytes_of_operands_and_results() -> None:
    calls = [node for node in stored("callback").body.nodes if isinstance(node, HostCall)]
    assert [(call.bytes_to_host, call.bytes_from_host) for call in calls] == [(32, 32), (4, 0)]
    assert calls[0].scope == "jit(call)/pure_callback"


def test_feeds_stop_for_the_host() -> None:
    lines = """
  %t = token[] after-all()
  %in = (f32[128,4]{1,0}, token[]) infeed(%t)
  %data = f32[128,4]{1,0} get-tuple-element(%in), index=0
  %neg = f32[128,4]{1,0} negate(%data)
  ROOT %out = token[] outfeed(%neg, %t), outfeed_shape=f32[128,4]{1,0}"""
    nodes = lowered(module_text(lines)).body.nodes
    assert [type(node).__name__ for node in nodes] == ["HostCall", "Superstep", "HostCall"]
    first, _, last = nodes
    assert isinstance(first, HostCall)
    assert isinstance(last, HostCall)
    assert (first.bytes_to_host, first.bytes_from_host) == (0, 2048)
    assert (last.bytes_to_host, last.bytes_from_host) == (2048, 0)


def test_an_argument_in_the_hosts_memory_is_read_slice_by_slice() -> None:
    program = stored("offload")
    assert [(a.name, a.on_host) for a in program.arguments] == [("ws", True), ("x", False)]
    (loop,) = [node for node in program.body.nodes if isinstance(node, Loop)]
    calls = [node for node in loop.body.nodes if isinstance(node, HostCall)]
    assert [(call.bytes_from_host, call.bytes_to_host, call.in_memory) for call in calls] == [(16 * 16 * 4, 0, True)]
    assert not any(isinstance(node, Superstep) and "dynamic_slice" in node.scope for node in loop.body.nodes)


def test_an_operation_without_an_estimator_is_listed_and_marked() -> None:
    lines = '  %x = f32[4]{0} parameter(0)\n  ROOT %r = f32[4]{0} custom-call(%x), custom_call_target="mine"'
    program = lowered(module_text(lines))
    assert program.fallback_ops == ("custom-call:mine",)
    (step,) = program.body.nodes
    assert isinstance(step, Superstep)
    assert step.fallback
    assert step.compute_cycles > 0
    assert any("custom-call:mine" in sentence for sentence in program.assumptions)


def test_a_call_without_results_is_priced() -> None:
    lines = '  %x = f32[4]{0} parameter(0)\n  ROOT %r = () custom-call(%x), custom_call_target="mine", custom_call_has_side_effect=true'
    assert lowered(module_text(lines)).fallback_ops == ("custom-call:mine",)


def test_operations_on_nothing_are_no_steps() -> None:
    lines = "  %x = f32[0,4]{1,0} parameter(0)\n  %n = f32[0,4]{1,0} negate(%x)\n  ROOT %r = f32[4,0]{0,1} transpose(%n), dimensions={1,0}"
    assert lowered(module_text(lines)).body == Series()


def test_views_and_tuples_cost_nothing() -> None:
    lines = """
  %x = f32[8,4]{1,0} parameter(0)
  %v = f32[32]{0} bitcast(%x)
  %t = (f32[32]{0}, f32[8,4]{1,0}) tuple(%v, %x)
  ROOT %e = f32[32]{0} get-tuple-element(%t), index=0"""
    assert lowered(module_text(lines)).body == Series()


def test_a_tuple_as_argument_is_an_error() -> None:
    lines = "  %x = (f32[4]{0}, f32[4]{0}) parameter(0)\n  ROOT %e = f32[4]{0} get-tuple-element(%x), index=0"
    with pytest.raises(HloError, match="argument 0 is a tuple"):
        lowered(module_text(lines))
