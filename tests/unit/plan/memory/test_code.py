"""Bytes of code on a tile, by hand from the table in docs/reference/memory.md."""

from dataclasses import replace

import pytest

from tests.unit.cost.machines import BOW, tiles, work
from tests.unit.sim.toy import program
from tilestep.cost import elementwise_fusion
from tilestep.options import PlanOptions
from tilestep.plan.memory.code import code_bytes, code_of, code_of_fusion, codelets_of, fixed_bytes
from tilestep.plan.price import price, superstep
from tilestep.plan.products.work_lists import runs
from tilestep.plan.steps import Branch, Collective, HostCall, Loop, Node, Series, Superstep
from tilestep.program.work import ArrayShape, Work

DEFAULTS = PlanOptions()


def step_of(asked: Work, name: str = "step") -> Superstep:
    cost = price(asked, BOW, DEFAULTS)
    return superstep(name, "", cost, code_of(asked, cost, BOW))


def pass_of(*operations: str, size: int = 8192, name: str = "pass") -> Superstep:
    named = [(operation, "f32") for operation in operations]
    array = ArrayShape("f32", (size,))
    cost = elementwise_fusion(named, size=size, inputs=[array, array], outputs=[array], ipu=BOW)
    return superstep(name, "", cost, code_of_fusion(named, cost))


DENSE = work("dot", "f32[16,4096] f32[4096,1024]", "f32[16,1024]", lhs_contracting_dims="{1}", rhs_contracting_dims="{0}")
DOT = step_of(DENSE)


def kinds(*nodes: Node, streams: int = 0) -> dict[str, int]:
    return code_bytes(nodes, streams=streams)


def test_a_program_of_one_pass() -> None:
    assert kinds(pass_of("add", "tanh"), streams=2) == {
        "vertex code": 256 + 2 * 32,
        "exchange code": 0,
        "control code": 700 + 36,
        "vertex state": 45,
        "host exchange code": 298 + 2 * 16,
    }


def test_a_step_that_is_there_again_costs_a_call() -> None:
    once, again = kinds(DOT), kinds(DOT, replace(DOT, name="other", scope="layer2"))
    assert again == {**once, "control code": once["control code"] + 8}


def test_steps_of_another_size_share_their_codelet_only() -> None:
    small, both = kinds(pass_of("add")), kinds(pass_of("add"), pass_of("add", size=65536))
    assert both["vertex code"] == small["vertex code"]
    assert both["vertex state"] == 2 * small["vertex state"]
    assert both["control code"] == small["control code"] + 36
    assert kinds(pass_of("add"), pass_of("multiply"))["vertex code"] == 2 * small["vertex code"]


def test_the_codelets_of_a_program_are_all_its_vertex_code() -> None:
    exchange = Collective(name="sum", scope="", kind="all-reduce", size_bytes=4, groups=((0, 1),))
    for nodes in (
        (pass_of("add"), pass_of("add", size=65536)),
        (DOT, pass_of("add")),
        (Loop(name="", scope="", body=Series(nodes=(DOT,)), trips=2),),
        (exchange,),
    ):
        assert sum(codelets_of(program(*nodes)).values()) == kinds(*nodes)["vertex code"]
    copies = codelets_of(program(DOT)).keys() & codelets_of(program(exchange)).keys()
    assert copies == {"strided copies"}, "a tile has them once for all programs that are loaded together"


def test_exchange_code_grows_with_messages() -> None:
    """Beside 32 bytes of entry: 4 for each part that is received, 8 and 4 for every further 256 bytes of what is sent.

    The inner dimension's 512 blocks are cut in 64, the 64 blocks of results in 23.
    """
    left = 4 * 23 + 8  # 16 x 64 floats, from tiles that hold 184 bytes each
    right = 4 * 2 + 8 + 4 * 44  # 64 x 45 floats, from tiles that hold 11,400 bytes
    sums = 4 * (8 + 8) + 2 * (8 + 4 * 5)  # 64 partial sums in two stages, 1,428 bytes in each
    assert DOT.exchange_code_bytes == 32 + left + right + sums
    in_place = step_of(replace(DENSE, resident=(False, True)))
    assert in_place.exchange_code_bytes == 32 + left + sums
    wide = step_of(work("transpose", "f16[1472,1600]", "f16[1600,1472]", dimensions="{1,0}"))
    assert wide.exchange_code_bytes == 32 + 12 * -(-wide.exchange_bytes // 32)


@pytest.mark.parametrize(
    ("kept", "steps"),
    [
        pytest.param(2000, 66 + 3 * 12, id="runs of 2,048 sorted in 66 steps, then merged thrice"),
        pytest.param(16384, 14 * 15 // 2, id="all keys sorted"),
        pytest.param(1, 14, id="the largest"),
    ],
)
def test_a_bitonic_network_has_the_code_of_each_of_its_steps(kept: int, steps: int) -> None:
    network = step_of(work("topk", "f32[8,16384]", f"f32[8,{kept}] s32[8,{kept}]", k=str(kept)))
    assert network.compute_sets == steps
    assert network.exchange_code_bytes == steps * (32 + 12 * 4 * 2)  # keys and positions, each two runs from two tiles
    assert network.vertex_state_bytes == steps * (45 + 6 * 20)
    assert kinds(network)["control code"] == 700 + 36 * steps
    assert kinds(network, network)["control code"] == 700 + 36 * steps + 8


def test_steps_that_follow_each_other_again_are_one_call() -> None:
    first, second = pass_of("add"), pass_of("multiply")
    once = kinds(first, second)
    assert kinds(first, second, first, second, first, second) == {**once, "control code": once["control code"] + 2 * 8}
    assert kinds(first, second, first, first) == {**once, "control code": once["control code"] + 2 * 8}


def test_loops_and_arms_are_there_once() -> None:
    step = pass_of("add")
    loop = Loop(name="loop", scope="", body=Series(nodes=(step, step)), trips=1000)
    branch = Branch(name="branch", scope="", arms=(Series(nodes=(step,)), Series(nodes=(step,))), site=None)
    assert kinds(loop, branch) == {**kinds(step), "control code": 700 + 36 + 3 * 8 + 2 * 8}


def test_collectives_and_host_calls() -> None:
    ring = Collective(name="sum", scope="", kind="all-reduce", size_bytes=4096, groups=((0, 1, 2, 3),))
    call = HostCall(name="callback", scope="", bytes_to_host=4, bytes_from_host=4)
    assert kinds(ring, call) == {
        "vertex code": 530,
        "exchange code": 32 + 4 * 12,
        "control code": 700 + 36 + 36,
        "vertex state": 0,
        "host exchange code": 298 + 16,
    }


@pytest.mark.parametrize("stride", [1, 3])
def test_a_convolution_with_overlapping_windows_has_lists_for_its_workers(stride: int) -> None:
    out = 56 // stride + (1 if stride == 3 else 0) - (0 if stride == 1 else 1)
    asked = work(
        "convolution",
        "f16[4,56,56,64] f16[3,3,64,64]",
        f"f16[4,{out},{out},64]",
        dim_labels="b01f_01io->b01f",
        window=f"{{size=3x3 stride={stride}x{stride}" + (" pad=1_1x1_1}" if stride == 1 else "}"),
    )
    step = step_of(asked)
    # A tile has one group of channels of inputs, weights and results. Six rows: for each of nine elements six lists of a run each. Where
    # windows do not overlap they are rows of a product, which has four groups of inputs.
    lists = 4 * 3 + 9 * 6 * (4 + 6) if stride == 1 else 4 * (4 + 4 + 1) + 6 * 6
    assert step.vertex_state_bytes == 45 + lists


def test_stacks_and_what_is_reserved_are_the_machine_s() -> None:
    assert fixed_bytes(tiles(4)) == {"stacks": 3168, "reserved": 1104}


def test_a_dense_layer_is_near_what_poplar_reported_of_one() -> None:
    """graphcore/tensorflow-addons auto_pipeline profiler_test.py: 3.4 MiB of vertex code, 360 KiB of exchange code on 1,472 tiles."""
    found = kinds(step_of(replace(DENSE, resident=(False, True))), pass_of("add", size=16 * 1024))
    assert found["vertex code"] == pytest.approx(3.4 * 2**20 / 1472, rel=0.5)
    assert found["exchange code"] == pytest.approx(360 * 2**10 / 1472, rel=0.05)


@pytest.mark.parametrize(
    ("rows", "row_length", "found"),
    [
        (6, 56, 6),  # a row for each worker
        (1, 56, 6),  # of one row a sixth
        (1, 2, 2),  # four workers idle
        (4, 7, 8),  # cut at 4, 9, 14, 18 and 23 of 28: the second worker ends one row and begins the next, as does the fifth
        (12, 1, 12),  # rows of one element
    ],
)
def test_runs_of_the_workers(rows: int, row_length: int, found: int) -> None:
    assert runs(rows, row_length, 6) == found
