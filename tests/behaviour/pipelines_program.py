"""A program of pipelines over several processes: `pipelines_program.py PROCESS COUNT PORT TIMEOUT_S PART...`.

It has eight devices, however many processes there are, and prints what it finds by name; `test_pipelines_over_processes` compares.
"""

import faulthandler
import hashlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.behaviour.several import end
from tests.unit.train.moments import After, Moment, Never
from tests.unit.train.pipeline.pipelines import (
    CLASSES,
    WIDTH,
    batches,
    centred,
    dense,
    embed,
    head,
    joined,
    left,
    matrix,
    noisy,
    output,
    right,
)
from tilestep.errors import DatasetError, NotFiniteError, ProcessFailedError
from tilestep.train import InfeedQueue, OutfeedQueue, Pipeline, loop_state, start_processes

PROCESS, COUNT = int(sys.argv[1]), int(sys.argv[2])
STAGES = [embed, [left, right], joined, dense, head]
MAPPING = [0, [2, 4], 6, 6, 7]  # with two processes the members of the group are apart, with four all but the last three stages
MICROBATCHES = 6
LIMIT_WALL_S = float(os.environ.get("LIMIT_WALL_S", "150"))


def parameters() -> list[Any]:
    rng = np.random.default_rng(0)
    return [
        {"table": matrix(rng, 11, WIDTH)},
        [{"w": matrix(rng, WIDTH, WIDTH)}, {"s": matrix(rng, WIDTH)}],
        {"w": matrix(rng, 2 * WIDTH, WIDTH)},
        {"w": matrix(rng, WIDTH, WIDTH), "b": rng.normal(1, 0.1, WIDTH).astype(np.float16), "steps": np.int32(3)},
        {"w": matrix(rng, WIDTH, CLASSES)},
    ]


def tell(case: str, tree: Any) -> None:
    """Prints what this process has of a tree of arrays."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
            data = np.ascontiguousarray(np.asarray(leaf))
            digest = hashlib.sha256(data.tobytes()).hexdigest()[:16]
            print(f"{case}{jax.tree_util.keystr(path)} {data.dtype}{list(data.shape)} {digest} {data.reshape(-1)[:2].tolist()}", flush=True)


def brief() -> None:
    """A concurrent group, a tied parameter and a global norm; then a stage that raises, and what comes after."""
    some, rng = parameters(), np.random.default_rng(3)
    params = [some[0], some[1], some[2], {"table": some[0]["table"], "b": rng.normal(size=11).astype(np.float32)}]
    pipeline = Pipeline(
        [embed, [left, right], joined, output],
        optax.chain(optax.clip_by_global_norm(0.3), optax.sgd(0.5)),
        MICROBATCHES,
        device_mapping=[0, [2, 4], 6, 7],
        tied=[[(0, "table"), (3, "table")]],
        pipeline_schedule="zero_bubble",
        strict=False,
        program="stages",
    )
    state = pipeline.init(params)
    for turn in range(2):
        state, (losses, _) = pipeline.step(state, batches(turn, MICROBATCHES))
    tell("brief", (state, losses))
    pipeline = Pipeline([lambda p, x: x * p, refusing, lambda p, x: (x * p).sum()], optax.sgd(0.01), 6, device_mapping=[0, 5, 7])
    state = pipeline.init([np.float32(1)] * 3)
    x = np.arange(12, dtype=np.float32).reshape(6, 2) / 2
    words = ["this one", "stage 1 (refusing) of the pipeline, forward of microbatch 3"]
    error = raised_by(lambda: pipeline.step(state, x))
    text, owner = f"{error} {error.__notes__}", 5 * COUNT // 8
    print("raised", [word in text for word in words], flush=True)
    assert (owner == PROCESS) is not isinstance(error, ProcessFailedError), error
    assert owner == PROCESS or f"process {owner} (pid " in text, text
    state = error.state
    state, losses = pipeline.step(state, x + 0.25)
    tell("after", (state, losses))


def raised_by(call: Callable[[], Any]) -> Any:
    """The exception."""
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def schedules() -> None:
    """Unlike stages and a concurrent group, with each schedule."""
    for schedule in ("sequential", "grouped", "interleaved", "zero_bubble", "stashed"):
        pipeline = Pipeline(
            STAGES, optax.adam(1e-2), MICROBATCHES, device_mapping=MAPPING, pipeline_schedule=schedule, strict=False, program="stages"
        )
        state = pipeline.init(parameters())
        for turn in range(2):
            state, (losses, scores) = pipeline.step(state, batches(turn, MICROBATCHES) if PROCESS == 0 else None)
        tell(schedule, (state, losses, scores))
    some = parameters()
    middle = [some[3]] * 2
    pipeline = Pipeline(
        [embed, dense, dense, head],
        optax.sgd(0.1),
        4,
        pipeline_schedule="looped",
        devices=[jax.devices()[0], jax.devices()[-1]],
        device_mapping=[0, 1, 0, 1],
        reduction="running_mean",
        program="stages",
    )
    state, losses = pipeline.step(pipeline.init([some[0], *middle, some[4]]), batches(5, 4))
    tell("looped", (state, losses))


def across() -> None:
    """What passes between stages beside their outputs: tied parameters, a global norm, an optimiser of the last stage's outputs."""
    rng = np.random.default_rng(3)
    table = matrix(rng, 11, WIDTH)
    params = [{"table": table}, {"s": matrix(rng, WIDTH)}, {"s": matrix(rng, WIDTH)}, {"table": table, "b": np.zeros(11, np.float32)}]
    aux = [None, None, {"mean": matrix(rng, WIDTH), "seen": np.int32(0)}, None]
    optimizers: dict[str, Any] = {
        "clipped": optax.chain(optax.clip_by_global_norm(0.3), optax.adam(0.05)),
        "function": lambda loss, other: (optax.sgd(other, momentum=0.5), loss * 2),
    }
    for name, optimizer in optimizers.items():
        pipeline = Pipeline(
            [embed, noisy, centred, output],
            optimizer,
            MICROBATCHES,
            device_mapping=[0, 3, 5, 7],
            tied=[[(0, "table"), (3, "table")]],
            reduction="mean",
            pipeline_schedule="interleaved",
            strict=False,
            program="stages",
        )
        state = pipeline.init(params, aux)
        for turn in range(3):
            state, losses = pipeline.step(state, batches(turn, MICROBATCHES), key=jax.random.key(turn))
        tell(name, (state, losses))
        if name == "clipped":  # saved by each process, and restored
            saved = jax.tree.map(lambda leaf: np.asarray(leaf) if leaf.is_fully_addressable else None, state)
            again = jax.tree.map(
                lambda like, kept: like if kept is None else jax.device_put(kept, like.sharding), pipeline.init(params, aux), saved
            )
            state, _ = pipeline.step(state, batches(7, MICROBATCHES), key=jax.random.key(7))
            again, losses = pipeline.step(again, batches(7, MICROBATCHES), key=jax.random.key(7))
            tell("restored", (again, losses))
            mine = [(a, b) for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(again), strict=True) if a.is_fully_addressable]
            assert all(np.array_equal(a, b) for a, b in mine)


def replicated() -> None:
    """Replicas of stages each of which is in one process, and a stage on a mesh."""
    devices, own = jax.devices(), len(jax.devices()) // COUNT
    across_processes = [devices[process * own + replica] for replica in range(2) for process in range(COUNT)] if COUNT > 1 else devices
    mapping = [0, max(COUNT, 2) - 1, 0]  # a replica has as many devices as there are processes
    if COUNT == 4:  # two devices each: in their own order the replicas of a stage are in two processes
        refused = raised_by(lambda: Pipeline([embed, dense, head], optax.adam(1e-2), 4, device_mapping=mapping, replicas=2, strict=False))
        assert f"in the order of the ids {[device.id for device in across_processes]} they are" in str(refused), refused
    params = parameters()
    pipeline = Pipeline(
        [embed, dense, head],
        optax.adam(1e-2),
        4,
        devices=across_processes,
        device_mapping=mapping,
        replicas=2,
        shard_optimizer_state=True,
        strict=False,
        program="stages",
    )
    rows = tuple(np.stack([leaf, leaf[::-1]], 1) for leaf in batches(3, 4))
    state, (losses, _) = pipeline.step(pipeline.init([params[0], params[3], params[4]]), rows)
    tell("replicas", (state.params, losses))
    pipeline = Pipeline([embed, dense, head], optax.adam(1e-2), 4, device_mapping=[0, (6, 7), 3], strict=False, program="stages")
    state, (losses, _) = pipeline.step(pipeline.init([params[0], params[3], params[4]]), batches(3, 4))
    tell("mesh", (state.params, losses))


def queues() -> None:
    """A run that is fed by the first process, and drained by the last; inference of concurrent stages."""
    pipeline = Pipeline(STAGES, optax.sgd(0.1), MICROBATCHES, device_mapping=MAPPING, outfeed_loss=True, strict=False, program="stages")
    infeed = InfeedQueue(list(zip(*(np.concatenate([batches(seed, MICROBATCHES)[i] for seed in (1, 2)]) for i in (0, 1)), strict=True)))
    outfeed = OutfeedQueue()
    state = pipeline.run(pipeline.init(parameters()), infeed, outfeed, repeat_count=2)
    tell("run", state)
    if COUNT == 1 or PROCESS == COUNT - 1:
        tell("outfeed", outfeed.dequeue())
    pipeline = Pipeline([lambda p, x: x * p, [lambda p, x: x + p, lambda p, x: (x * p, x.sum())]], None, 4, device_mapping=[7, [0, 4]])
    state = pipeline.init([np.float32(3), [np.float32(1), np.float32(2)]])
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    tell("inference", pipeline.step(state, x)[1])


def in_turns() -> None:
    """Two pipelines over the same processes, of which neither waits for the other: each gets what is its own."""
    pipelines = [
        Pipeline(
            [lambda w, x: x * w, lambda w, x: ((x - w) ** 2).sum()],
            optax.sgd(0.0),
            1,
            device_mapping=[0, 7],
            program="stages",
            strict=False,
        )
        for _ in range(2)
    ]
    states = [pipeline.init([np.float32(1), np.float32(0)]) for pipeline in pipelines]
    for turn in range(100):
        for number, pipeline in enumerate(pipelines):
            states[number], losses = pipeline.step(states[number], np.full((1, 1), 1 + number, np.float32))
            if turn % 25 == 24:
                tell(f"in turns {number} {turn}", losses)


# ------------------------------------------------------------------------------------------------------------- what goes wrong


def attempted(case: str, call: Callable[[], Any], state: Any, *own: type[Exception]) -> Any:
    """Prints what a call has raised; returns the state that the exception carries."""
    before = [np.asarray(leaf) for leaf in jax.tree.leaves(state) if leaf.is_fully_addressable]
    try:
        call()
    except (ProcessFailedError, *own) as error:
        notes = getattr(error, "__notes__", [])
        text = " ".join(f"{type(error).__name__}: {error} {' '.join(notes)}".split())
        print(f"{case} raised {text}", flush=True)
        found: Any = error
        after = [np.asarray(leaf) for leaf in jax.tree.leaves(found.state) if leaf.is_fully_addressable]
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
        return found.state
    raise AssertionError(f"{case} raised nothing")


def refusing(params: Any, x: Any) -> Any:
    """Raises in Python when a microbatch begins with 3."""

    def look(x: Any) -> Any:
        if x[0] == 3:
            raise ValueError("this one")
        return x

    return x * params + 0 * jax.pure_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), jax.lax.stop_gradient(x))


def failures() -> None:
    """Each process raises, with the state before the update, and goes on."""
    well = np.full((6, 2), 0.5, np.float32)
    ones = [np.float32(1)] * 4
    stages = [lambda p, x: x * p, refusing, lambda p, x: x * p, lambda p, x: (x * p).sum()]
    pipeline = Pipeline(stages, optax.sgd(0.01), 6, device_mapping=[0, 4, 6, 7], strict=False, pipeline_schedule="interleaved")
    state, _ = pipeline.step(pipeline.init(ones), well)

    def elements() -> Any:
        yield from [*well, *well]
        yield well[0]
        raise OSError("the disk is gone")

    def run(given: Any) -> Any:
        return pipeline.run(given, InfeedQueue(elements), repeat_count=3)

    two = state
    for _ in range(2):
        copy = jax.tree.map(lambda leaf: leaf + 0 if leaf.is_fully_addressable else leaf, two)
        two, _ = pipeline.step(copy, well)
    try:
        run(state)
    except (OSError, DatasetError, ProcessFailedError) as error:
        found: Any = error
        print(f"dataset raised {type(error).__name__}: {error}", flush=True)
        mine_now = [leaf for leaf in jax.tree.leaves(found.state) if leaf.is_fully_addressable]
        expected = [leaf for leaf in jax.tree.leaves(two) if leaf.is_fully_addressable]
        assert all(np.array_equal(a, b) for a, b in zip(mine_now, expected, strict=True))
        state = found.state
    state, losses = pipeline.step(state, well)
    tell("after dataset", losses)

    def unknown(params: Any, x: Any) -> Any:
        return jax.lax.with_sharding_constraint(x, NamedSharding(Mesh(np.array(jax.devices()[:2]), ("x",)), PartitionSpec("x"))) * params

    pipeline = Pipeline([stages[0], stages[2], unknown, stages[3]], optax.sgd(0.01), 6, device_mapping=[0, 2, 6, 7], strict=False)
    state = pipeline.init(ones)
    attempted("compilation", lambda: pipeline.step(state, well), state, ValueError)

    def root(params: Any, x: Any) -> Any:
        return jnp.sqrt(x) * params["in"]["s"]

    params = [{"w": np.float32(1)}, {"in": {"s": np.float32(1)}}, np.float32(1)]
    for schedule in ("zero_bubble", "stale"):
        pipeline = Pipeline(
            [lambda p, x: x * p["w"], root, lambda p, x: (x * p).sum()],
            optax.sgd(0.1),
            6,
            device_mapping=[0, 4, 7],
            pipeline_schedule=schedule,
            check_nans=True,
        )
        state, _ = pipeline.step(pipeline.init(params), np.ones((6, 2), np.float32))
        for name, value in (("nan", np.nan), ("root", -1.0)):
            bad = np.ones((6, 2), np.float32)
            bad[4] = value
            state = attempted(f"{schedule} {name}", lambda s=state, b=bad, p=pipeline: p.step(s, b), state, NotFiniteError)
        state, losses = pipeline.step(state, np.ones((6, 2), np.float32))
        tell(f"after {schedule}", losses)


def endless(how: str) -> None:
    """Until one process ends, which is the last but one, in the middle of an update."""
    began = time.monotonic()

    def slow(params: Any, x: Any) -> Any:
        def look(x: Any) -> Any:
            if PROCESS == COUNT - 2 and time.monotonic() - began > 2:
                end(how, OverflowError("too much"))
            return x

        return jax.pure_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * params

    stages = [slow if stage == (COUNT - 2) * 8 // COUNT else (lambda p, x: x * p) for stage in (0, 2, 4, 6)]
    pipeline = Pipeline([*stages, lambda p, x: (x * p).sum()], None, 8, device_mapping=[0, 2, 4, 6, 7], strict=False)
    state = pipeline.init([np.float32(1)] * 5)
    while time.monotonic() - began < 60:
        state, values = pipeline.step(state, np.ones((8, 2), np.float32))
        jax.block_until_ready(values)


def resumed() -> None:
    """Interrupts that come to all processes at once, at random moments of runs that go on afterwards."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    pipeline = Pipeline(
        [lambda p, x: jnp.tanh(x * p), lambda p, x: (((x - p) ** 2).sum(), x)], optax.adam(0.1), 2, device_mapping=[0, 7], strict=False
    )

    def elements() -> Any:
        for k in range(60):
            time.sleep(0.01)
            yield np.full(2, k / 60, np.float32)

    def results(moment: Moment) -> tuple[int, list[Any]]:
        """(how often a run was ended, what this process has of results and state)."""
        infeed, outfeed, done, ends, is_over = InfeedQueue(elements), OutfeedQueue(), 0, 0, False
        state = pipeline.init([np.float32(0.5), np.float32(0.1)])
        while not is_over:
            try:
                if done < 30:
                    moment.begin()
                    state, done = pipeline.run(state, infeed, outfeed, repeat_count=30 - done), 30
                moment.end()
                is_over = True
            except (KeyboardInterrupt, ProcessFailedError) as error:
                if (reached := loop_state(error)) is not None:
                    state, done, ends = reached.carry, done + reached.steps, ends + 1
                    assert infeed.consumed == (2 * done if PROCESS == 0 else 0)
        assert infeed.consumed == (60 if PROCESS == 0 else 0)
        own = [np.asarray(leaf) for leaf in jax.tree.leaves(state) if leaf.is_fully_addressable]
        return ends, [*jax.tree.leaves(outfeed.dequeue()), *own]

    _, whole = results(Never())
    rng, ended = random.Random(4), 0
    for _ in range(4):
        ends, broken = results(After(rng.uniform(0, 0.6)))
        ended += ends
        print(f"equal {all(np.array_equal(one, other) for one, other in zip(broken, whole, strict=True))}", flush=True)
    assert ended


PARTS = {
    part.__name__: part
    for part in (
        *(brief, schedules, across, replicated, queues),
        *(in_turns, failures, resumed),
    )
}


def main() -> None:
    faulthandler.dump_traceback_later(LIMIT_WALL_S, exit=True)  # none may hang
    jax.config.update("jax_num_cpu_devices", 8 // COUNT)
    if COUNT > 1:
        start_processes(
            coordinator_address=f"localhost:{sys.argv[3]}", num_processes=COUNT, process_id=PROCESS, timeout_s=float(sys.argv[4])
        )
    for part in sys.argv[5:]:
        began = time.monotonic()
        if part in PARTS:
            PARTS[part]()
        else:
            endless(part)
        print(f"{part} took {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    print("end", flush=True)


main()
