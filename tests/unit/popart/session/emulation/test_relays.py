"""What stages of a session pass on, and what they compute."""

import numpy as np

from tests.unit.popart.session.emulation.models import device, options
from tilestep import popart
from tilestep.popart.session.emulation.stage_functions import relays_of, stage_functions
from tilestep.popart.session.plan import plan_of
from tilestep.popart.session.staging import SessionStage, Staging
from tilestep.popart.tensors import InputShapeInfo


def _stage(number: int, reads: str, variables: str, gives: str) -> SessionStage:
    return SessionStage(
        number=number, ipu=number, nodes=(), reads=tuple(reads.split()), variables=tuple(variables.split()), gives=tuple(gives.split())
    )


def _staging(*stages: SessionStage) -> Staging:
    return Staging(kind="pipelined", stages=stages, num_ipus=len(stages), loss_stage=len(stages) - 1)


def test_what_a_later_stage_reads_goes_through_all_between() -> None:
    staging = _staging(_stage(0, "x", "a", "h k"), _stage(1, "h", "b", "g"), _stage(2, "g k label", "c", ""))
    relays = relays_of(staging, inputs=["x", "label"], trained=["a", "b", "c"], made={"h": 0, "k": 0, "g": 1, "loss": 2}, last=["loss"])
    assert [set(names) for names in relays.incoming] == [{"x", "label"}, {"h", "k", "label"}, {"g", "k", "label"}]
    assert relays.params == (("a",), ("b",), ("c",))
    assert relays.last == ("loss",)


def test_a_weight_of_several_stages_belongs_to_the_first_and_a_constant_to_each() -> None:
    staging = _staging(_stage(0, "x", "w fixed", "h"), _stage(1, "h", "", "g"), _stage(2, "g", "w fixed", ""))
    relays = relays_of(staging, inputs=["x"], trained=["w"], made={"h": 0, "g": 1, "loss": 2}, last=["loss"])
    assert relays.params == (("w",), (), ())
    assert relays.aux == (("fixed",), (), ("fixed",))
    assert [set(names) for names in relays.incoming] == [{"x"}, {"h", "w"}, {"g", "w"}]


def test_a_loss_of_an_earlier_stage_goes_on_to_the_last() -> None:
    staging = _staging(_stage(0, "x", "w", "h"), _stage(1, "h", "", ""))
    relays = relays_of(staging, inputs=["x"], trained=["w"], made={"h": 0, "loss": 0, "y": 1}, last=["loss"])
    assert set(relays.incoming[1]) == {"h", "loss"}


def test_arrays_in_a_stage_become_its_auxiliary_state(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2, 2], "x")
    added = builder.aiOnnx.add([x, builder.aiOnnx.constant(np.array([[1, 2], [3, 4]], np.float32), "c")])
    y = builder.aiOnnx.mul([added, builder.aiOnnx.constant(np.float32(2), "two")])
    for ipu, tensor in ((0, added), (1, y)):
        builder.virtualGraph(tensor, ipu)
    plan = plan_of(
        builder.getModelProto(),
        popart.DataFlow(2, {y: popart.AnchorReturnType("All")}),
        shapes=InputShapeInfo(),
        options=options(),
        device=device(2),
    )
    functions = stage_functions(plan, None)
    (constant,) = functions.aux[0]
    (passed,), new = functions.functions[0]({}, {constant: np.full((2, 2), 5, np.float32)}, np.ones((2, 2), np.float32))
    assert np.asarray(passed).tolist() == [[6, 6], [6, 6]]
    assert new[constant].tolist() == [[5, 5], [5, 5]]
    assert functions.aux[1] == {}
