"""Random pipelines against plain accumulation on one device."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.unit.train.pipeline.pipelines import (
    ROWS,
    WIDTH,
    assert_near,
    centred,
    dense,
    embed,
    gated,
    joined,
    left,
    matrix,
    noisy,
    output,
    right,
    scaled,
)
from tilestep.train.pipeline.pipeline import Pipeline

WORDS = 11
SCHEDULES = ("sequential", "grouped", "interleaved", "zero_bubble")
POLICIES = (None, "full", jax.checkpoint_policies.dots_saveable)
OPTIMIZERS = {
    "sgd": optax.sgd(0.1),
    "momentum": optax.sgd(0.05, momentum=0.9),
    "clipped": optax.chain(optax.clip_by_global_norm(0.3), optax.sgd(0.1, momentum=0.5)),
    "function": lambda loss, rate: (optax.sgd(rate, momentum=0.5), loss * 2),
}


@dataclass(frozen=True)
class Drawn:
    """A random pipeline."""

    middle: tuple[str, ...]
    devices: tuple[int, ...]
    schedule: str
    recompute: int
    reduction: str
    optimizer: str
    replicas: int
    count: int
    is_tied: bool
    is_single: bool
    seed: int
    half: Any = np.float16  # of some parameters, and so of their gradients

    @property
    def is_of_rounded_norm(self) -> bool:
        """Whether all parameters are scaled by a norm that gradients in halves are part of."""
        return self.optimizer == "clipped" and self.half is np.float16 and not {"dense", "gated"}.isdisjoint(self.middle)


@st.composite
def pipelines(draw: st.DrawFn) -> Drawn:
    kinds = st.sampled_from(("dense", "gated", "noisy", "centred", "pair"))
    return Drawn(
        middle=tuple(draw(st.lists(kinds, max_size=3))),
        devices=tuple(draw(st.lists(st.integers(0, 3), min_size=12, max_size=12))),
        schedule=draw(st.sampled_from(SCHEDULES)),
        recompute=draw(st.integers(0, 2)),
        reduction=draw(st.sampled_from(("sum", "mean", "running_mean"))),
        optimizer=draw(st.sampled_from(sorted(OPTIMIZERS))),
        replicas=draw(st.integers(1, 2)),
        count=draw(st.integers(1, 5)),
        is_tied=draw(st.booleans()),
        is_single=draw(st.booleans()),
        seed=draw(st.integers(0, 99)),
    )


def made(drawn: Drawn) -> tuple[list[Any], list[Any], list[Any]]:
    """(stages, parameters, auxiliary state)."""
    rng = np.random.default_rng(drawn.seed)
    half = rng.normal(1, 0.1, WIDTH).astype(np.float16).astype(drawn.half)
    parts: dict[str, list[tuple[Any, Any, Any]]] = {
        "dense": [(dense, {"w": matrix(rng, WIDTH, WIDTH), "b": half, "steps": np.int32(3)}, None)],
        "gated": [(gated, {"w": matrix(rng, WIDTH, WIDTH), "b": half}, None), (scaled, {"s": matrix(rng, WIDTH)}, None)],
        "noisy": [(noisy, {"s": matrix(rng, WIDTH)}, None)],
        "centred": [(centred, {"s": matrix(rng, WIDTH)}, {"mean": matrix(rng, WIDTH), "seen": np.int32(0)})],
        "pair": [
            ([left, right], [{"w": matrix(rng, WIDTH, WIDTH)}, {"s": matrix(rng, WIDTH)}], [None, None]),
            (joined, {"w": matrix(rng, 2 * WIDTH, WIDTH)}, None),
        ],
    }
    table = matrix(rng, WORDS, WIDTH)
    head = (output, {"table": table if drawn.is_tied else matrix(rng, WORDS, WIDTH), "b": np.zeros(WORDS, np.float32)}, None)
    rows = [(embed, {"table": table}, None), *(entry for kind in drawn.middle for entry in parts[kind]), head]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def whole(stages: list[Any], params: Any, aux: Any, key: Any, number: Any, element: Any) -> tuple[Any, Any]:
    """All stages as one function: (what the last returns, the new auxiliary state)."""
    args, flat, new = element, 0, []
    for stage, own, state in zip(stages, params, aux, strict=True):
        members = list(zip(stage, own, strict=True)) if isinstance(stage, list) else [(stage, own)]
        items: list[Any] = []
        for member, theirs in members:
            if member is noisy:
                result = noisy(theirs, *args, key=jax.random.fold_in(jax.random.fold_in(key, flat), number))
            elif member is centred:
                result, state = centred(theirs, state, *args)
            elif isinstance(args[0], dict):
                result = member(theirs, args[0])
            else:
                result = member(theirs, *args)
            items += result if isinstance(result, tuple) else (result,)
            flat += 1
        new.append(state)
        args = tuple(items)
    return args, new


def plain(drawn: Drawn, elements: Any, updates: int, key: Any) -> tuple[Any, Any]:
    """Accumulation on one device: (parameters, auxiliary state of each replica)."""
    stages, params, aux = made(drawn)
    params = jax.tree.map(jnp.asarray, params)
    optimizer, scale = OPTIMIZERS[drawn.optimizer], 1.0
    if drawn.optimizer == "function":
        optimizer, scale = optax.sgd(0.1, momentum=0.5), 2.0
    states = [aux] * drawn.replicas

    def trained(tree: Any) -> Any:
        found = jax.tree.map(lambda leaf: leaf if jnp.issubdtype(leaf.dtype, jnp.inexact) else None, tree)
        if drawn.is_tied:
            found[-1] = {**found[-1], "table": None}
        return found

    @jax.jit
    def gradient(params: Any, aux: Any, key: Any, number: Any, *element: Any) -> Any:
        def loss(params: Any) -> Any:
            if drawn.is_tied:
                params = [*params[:-1], {**params[-1], "table": params[0]["table"]}]
            outputs, new = whole(stages, params, aux, key, number, element)
            return outputs[0] * scale, new

        return jax.grad(loss, has_aux=True, allow_int=True)(params)

    state = optimizer.init(trained(params))
    for update in range(updates):
        total: Any = None
        step_key = jax.random.fold_in(key, update)
        for replica in range(drawn.replicas):
            for m in range(drawn.count):
                element = [leaf[m, replica] if drawn.replicas > 1 else leaf[m] for leaf in elements]
                found, states[replica] = gradient(params, states[replica], step_key, m * drawn.replicas + replica, *element)
                found = jax.tree.map(lambda g, p: g if jnp.issubdtype(p.dtype, jnp.inexact) else None, found, params)
                total = found if total is None else jax.tree.map(jnp.add, total, found)
        divisor = drawn.replicas * (drawn.count if drawn.reduction != "sum" else 1)
        total = jax.tree.map(lambda leaf, divisor=divisor: leaf / divisor, total)
        if drawn.is_tied:
            total[-1] = {**total[-1], "table": None}
        changes, state = optimizer.update(total, state, trained(params))
        changes = jax.tree.leaves(changes, is_leaf=lambda leaf: leaf is None)
        leaves, structure = jax.tree.flatten(params)
        params = jax.tree.unflatten(structure, [p if u is None else p + u.astype(p.dtype) for p, u in zip(leaves, changes, strict=True)])
        if drawn.is_tied:
            params[-1] = {**params[-1], "table": params[0]["table"]}
    return params, states


def check(drawn: Drawn) -> None:
    """Where a norm with halves in it scales all parameters, one unit in a half's last place (1e-3) moves all of them together, and those
    that begin at zero by that part of themselves. Which way a half is rounded depends on the order of sums. In the case that has shown it
    (a running mean of five microbatches) pipeline and reference are 2e-5 apart, and 1.5e-4 and 1.3e-4 from the same in 64 bits; with floats
    in place of halves both are within 1e-7 of that. So there the bar is a tenth of such a unit, and with floats in their place it is that
    of all others.
    """
    if drawn.is_of_rounded_norm:
        check(replace(drawn, half=np.float32))
    relative = 1e-4 if drawn.is_of_rounded_norm else 1e-5
    stages, params, aux = made(drawn)
    sizes = [len(stage) if isinstance(stage, list) else 1 for stage in stages]
    compact = {device: number for number, device in enumerate(dict.fromkeys(drawn.devices[: sum(sizes)]))}
    rest = iter(compact[device] for device in drawn.devices)
    last = len(stages) - 1
    pipeline = Pipeline(
        stages,
        OPTIMIZERS[drawn.optimizer],
        drawn.count,
        pipeline_schedule=drawn.schedule,
        reduction=drawn.reduction,
        device_mapping=[next(rest) if size == 1 else [next(rest) for _ in range(size)] for size in sizes],
        replicas=drawn.replicas,
        recompute=POLICIES[drawn.recompute],
        tied=[[(0, "table"), (last, "table")]] if drawn.is_tied else (),
        program="single" if drawn.is_single and drawn.replicas == 1 else "stages",
        strict=False,
    )
    rng = np.random.default_rng(drawn.seed)
    shape = (drawn.count, *((drawn.replicas,) if drawn.replicas > 1 else ()), ROWS)
    elements = rng.integers(0, WORDS, (*shape, 5)).astype(np.int32), rng.integers(0, WORDS, shape).astype(np.int32)
    key = jax.random.key(drawn.seed)
    state = pipeline.init(params, aux)
    for update in range(2):
        state, outputs = pipeline.step(state, elements, key=jax.random.fold_in(key, update))
        assert outputs[0].shape == shape[:-1]
    expected, states = plain(drawn, elements, 2, key)
    assert_near(state.params, expected, relative)
    if jax.tree.leaves(aux):
        stacked = jax.tree.map(lambda *rows: jnp.stack(rows), *states) if drawn.replicas > 1 else states[0]
        assert_near(state.aux, stacked)
    if drawn.is_tied:
        np.testing.assert_array_equal(state.params[0]["table"], state.params[last]["table"])


FEW = settings(derandomize=True, deadline=None, max_examples=2, database=None, phases=[Phase.generate])


@pytest.mark.slow
@settings(FEW, max_examples=60)
@given(pipelines())
def test_any_of_many_pipelines_trains_as_one_device_does(drawn: Drawn) -> None:
    check(drawn)
