"""Says whether a step by jax.shard_map, on one device for each replica, gives what one by jax.vmap gives. It needs four devices.

Run as `python -m tests.unit.popart.session.sharded_steps`, with XLA_FLAGS=--xla_force_host_platform_device_count=4.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from tests.unit.popart.session.models import Kind, Model, flow, ipu_model, sgd, squares
from tests.unit.popart.session.replica_models import noisy, of_groups, replicated
from tilestep import popart
from tilestep.popart.optimizers import OptimizerState
from tilestep.popart.session.keys import key_of
from tilestep.popart.session.plan import Plan, plan_of
from tilestep.popart.session.program import Carry
from tilestep.popart.session.replicated import ReplicatedProgram
from tilestep.popart.session.replication import AXIS

SEPARATE = popart.SGDAccumulatorAndMomentum.Separate
MOMENTUM = {"defaultLearningRate": (1 / 16, False), "defaultMomentum": (0.5, False), "lossScaling": (64.0, False)}


def scaled() -> popart.SessionOptions:
    """Automatic loss scaling of four replicas."""
    options = replicated(4, accumulation=2)
    options.automaticLossScalingSettings.enabled = True
    return options


def cases() -> dict[str, tuple[Model, popart.SessionOptions, popart.Optimizer | None, int]]:
    """(model, options, optimiser, batches) by name."""
    mean = popart.ReductionType.Mean
    return {
        "two": (squares(), replicated(2), sgd(), 3),
        "accumulated": (squares(), replicated(4, accumulation=2), sgd(const=False), 2),
        "mean": (squares(), replicated(2, accumulation=2, accumulationAndReplicationReductionType=mean), popart.Adam({}), 1),
        "groups": (of_groups("Consecutive"), replicated(4, accumulation=2), popart.Adam({}), 3),
        "strided": (of_groups("Orthogonal"), replicated(4), popart.SGD(MOMENTUM, accumulatorAndMomentum=SEPARATE), 1),
        "noisy": (noisy(), replicated(4), popart.SGD(MOMENTUM), 2),
        "scaled": (noisy(), scaled(), popart.SGD(MOMENTUM), 1),
        "inference": (noisy(), replicated(4), None, 2),
    }


def first_carry(plan: Plan) -> Carry:
    """What is on the device first."""
    values = {name: jax.numpy.asarray(plan.replication.on_device(name, array)) for name, array in plan.first.items()}
    optimizer = None
    if plan.rule is not None:
        state = plan.rule.init({name: jax.numpy.asarray(plan.graph.variables[name]) for name in plan.names.trained})
        optimizer = OptimizerState(hyper=state.hyper, tensors={name: values[name] for name in state.tensors})
    variables = {name: values[name] for name in plan.graph.variables}
    return Carry(variables=variables, optimizer=optimizer, key=key_of(3), count=jax.numpy.uint32(0))


def largest_difference(name: str) -> float:
    """Of all results of a case, each relative to its array's largest value."""
    model, options, optimizer, batches = cases()[name]
    count = options.replicatedGraphCount
    anchors: dict[str, Kind] = {model.y: "All", model.loss: "Sum", model.w: "Final"}
    if batches > 1:
        anchors[model.x] = popart.AnchorReturnType("EveryN", batches)
    plan = plan_of(
        model.proto,
        flow(batches, anchors),
        shapes=popart.InputShapeInfo(),
        options=options,
        device=ipu_model(ipus=count),
        loss=None if optimizer is None else model.loss,
        optimizer=optimizer,
    )
    program = plan.program
    assert isinstance(program, ReplicatedProgram)
    spec = plan.graph.inputs[model.x]
    lead = [size for size in (batches, plan.accumulation, count) if size > 1]
    inputs = {model.x: np.random.default_rng(5).normal(size=(*lead, *spec.shape)).astype(spec.dtype)}
    carry = first_carry(plan)
    mesh = Mesh(np.array(jax.devices()[:count]), (AXIS,), axis_types=(AxisType.Auto,))
    one = jax.jit(program.step)(carry, inputs)
    each = jax.jit(program.sharded_step(mesh))(carry, inputs)
    types = program.placed(mesh, carry, inputs)
    assert jax.tree.map(np.shape, types[0]) == jax.tree.map(np.shape, carry)
    return max(jax.tree.leaves(jax.tree.map(_difference, _plain(one), _plain(each))))


def _plain(results: tuple[Carry, Any]) -> Any:
    carry, values = results
    return carry._replace(key=jax.random.key_data(carry.key)), values


def _difference(one: Any, other: Any) -> float:
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    assert a.shape == b.shape
    assert np.isfinite(a).all()
    return float(np.abs(a - b).max(initial=0) / max(np.abs(a).max(initial=0), 1e-30))


if __name__ == "__main__":
    for case in cases():
        print(case, largest_difference(case))
