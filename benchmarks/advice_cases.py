"""Which programs `advice.py` measures, of which findings: how each is before a finding is followed, and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from benchmarks.advice_examples import example, tutorial
from benchmarks.advice_popart import session
from benchmarks.advice_programs import (
    alternating,
    away,
    batched,
    decoding,
    descending,
    divided,
    elementwise,
    embedded,
    epochs,
    equinox,
    fed,
    flax,
    graph,
    ipu,
    leapfrog,
    perceptron,
    pipelined,
    predicting,
    regression,
    sampler,
)

F32, F16, F64 = np.float32, np.float16, np.float64
Options = Mapping[str, Any]
NONE: Options = MappingProxyType({})


class Case(NamedTuple):
    """A program before and after an edit. Both do as many steps as they are asked for, on the same data."""

    kind: str  # of the finding
    edit: str  # a pattern of it
    name: str
    program: Callable[..., Any]
    before: Options
    after: Options = NONE
    steps: int = 60
    small: Options | None = None  # in place of a program that is too large to be computed: it runs dry, and values are of a smaller one
    within: float = 1e-5  # of its largest value, that a result may be away: more where the finding says that values change
    public: bool = True  # an example's, a tutorial's, or in a style that is common in public code


def tutorial_steps(steps: int, *, donated: bool = True, half: bool = False) -> Any:
    """The training of the tutorial in three steps."""

    def use(names: dict[str, Any]) -> Any:
        step = jax.jit(names["half_step" if half else "step"], donate_argnums=0 if donated else ())
        state = jax.device_put(names["new_state"](), ipu())
        for rows in names["batches"]:
            state, value = step(state, names["images"][rows], names["labels"][rows])
        return np.asarray(value)

    scale = ("WIDTH = 20,", "WIDTH = {steps},")
    return tutorial(steps, file="three-steps.md", scale=scale, blocks=(0, 6) if half else (0,), use=use)


def plain_digits(steps: int, *, donated: bool) -> Any:
    jit = "jax.jit(update, backend=flags.backend"
    edits = [(f"{jit})", f"{jit}, donate_argnums=0)")] if donated else []
    return example(steps, file="mnist_plain.py", lines="^epoch", flag="--epochs", edits=edits)


def karate_club(steps: int, *, kept: bool) -> Any:
    edits = [
        ("optimizer_state, Statistics(cross_entropy, accuracy)\n", "optimizer_state, Statistics(cross_entropy, accuracy), graph\n"),
        ("donate_argnums=(0, 1))\n", "donate_argnums=(0, 1, 2))\non_ipu = jax.device_put(graph, jax.devices(backend)[0])\n"),
        (
            "statistics = jitted_update(params, optimizer_state, graph)",
            "statistics, on_ipu = jitted_update(params, optimizer_state, on_ipu)",
        ),
    ]
    scale = ("NUM_STEPS = 20", "NUM_STEPS = {steps}")
    return example(steps, file="karate_club.py", lines="^step", scale=scale, edits=edits if kept else [])


def line(steps: int, *, loop: int) -> Any:
    many = f"jax.jit(lambda fit: jax.lax.fori_loop(0, {loop}, lambda _, fit: update(fit), fit), backend"
    edits = [("jax.jit(update, backend", many)] if loop > 1 else []
    scale = ("NUM_STEPS = 1_000", "NUM_STEPS = {steps}")
    return example(steps, file="linear_regression.py", lines="^w =", scale=scale, edits=edits, each=loop)


def two_towers(steps: int, *, kept: bool) -> Any:
    edits = [(", num_devices=4)", ")")]  # JAX has begun, and its CPU has the devices that it has
    edits += [("    MICROBATCHES,\n", "    MICROBATCHES,\n    offload_optimizer_state=False,\n")] if kept else []
    scale = ("for epoch in range(EPOCHS)", "for epoch in range({steps})")
    return example(steps, file="two_towers.py", lines="^epoch", scale=scale, edits=edits)


PIPELINE: Options = MappingProxyType({"stages": 2, "accumulation": 8, "width": 256})
SHARDED: Options = MappingProxyType({"stages": 2, "accumulation": 16, "width": 256, "layers": 2})
SINGLE: Options = MappingProxyType({"batches": 8, "rows": 64})
TINY: Options = MappingProxyType({"width": 32, "batch": 16})
MOVING: Options = MappingProxyType({**TINY, "deep": 1, "optimizer": optax.sgd(1.0)})  # else parameters change by less than they are rounded
FULL: Options = MappingProxyType({"batch": 256, "depth": 40})
FEW: Options = MappingProxyType({"width": 32})
LAYERS: Options = MappingProxyType({"width": 32, "batch": 32, "depth": 2})
LOOP, ONE, READ = "^loop over", "into one jitted function", "^read results after"
BATCH, MICROBATCHES, KEEP = r"^make the batch of .* (\d+)$", "^use 32 microbatches", "^keep .* on the IPU$"
SINGLES, HALVES, PARTIALS = "^compute in float32", "^compute in float16", "ipu_partials_type"
IO_TILES, SENT, EXCHANGED = "ipu_num_io_tiles", "^send x as float16", "^exchange float16"
WIDE = {"width": 512, "batch": 512}
TWO, FOUR = {"layers_of": (1, 1), "optimizer": optax.adam(1e-3)}, {"layers_of": (1, 1, 1, 1), "deep": 64}
LANGUAGE, IMAGES, DENSE = {"model": "language"}, {"model": "images"}, {"model": "dense", "width": 1024}
STATE = {"read": "state"}

CASES: tuple[Case, ...] = (
    Case("donation", "^donate state$", "train state, as in flax", flax, {"donated": False}),
    Case("donation", "^donate model$", "module, as in equinox", equinox, {"donated": False}),
    Case("donation", "^donate state$", "a chain of samples", sampler, {"donated": False}),
    Case("donation", "^donate params$", "the plainest digits classifier", plain_digits, {"donated": False}, {"donated": True}, steps=10),
    Case("donation", "^put graph", "the karate club", karate_club, {"kept": False}, {"kept": True}, steps=20),
    Case("donation", "^donate state$", "the tutorial in three steps", tutorial_steps, {"donated": False}, steps=20),
    Case(
        "donation",
        "^return params unchanged and donate them$",
        "graph network, inference",
        graph,
        {"training": False, "kept": False, "nodes": 64, "width": 256},
        {"training": False, "nodes": 64, "width": 256},
    ),
    Case("calls", LOOP, "linear regression", regression, NONE, {"loop": 100}, steps=600),
    Case("calls", LOOP, "a recurrent network that decodes", decoding, NONE, {"loop": 100}, steps=600),
    Case("calls", LOOP, "module, as in equinox", equinox, {"rate": "fixed"}, {"rate": "fixed", "loop": 100}, steps=600),
    Case("idle", LOOP, "particles", leapfrog, NONE, {"loop": 100}, steps=600),
    Case("idle", LOOP, "the line", line, {"loop": 1}, {"loop": 100}, steps=1000),
    Case("idle", READ, "losses at once", flax, {"read": "at once"}, steps=240),
    Case("idle", READ, "means of samples", sampler, {"rows": 1024, "read": "at once"}, {"rows": 1024}, steps=600, small={"rows": 16}),
    Case("idle", READ, "graph network", graph, {"read": "at once"}, steps=240),
    Case("reads", "^read results of", "graph network each tenth step", graph, STATE, steps=240),
    Case("reads", "^read results of", "parameters each fourth step", flax, STATE, steps=240),
    Case(
        "reads",
        "^read results of",
        "a chain each 20th step",
        sampler,
        {"rows": 8192, **STATE},
        {"rows": 8192},
        steps=600,
        small={"rows": 16},
    ),
    Case("results", "^do not return", "graph network's nodes", graph, {"unused": True}),
    Case("results", "^do not return", "module's outputs", equinox, {"unused": True}),
    Case("results", "^do not return", "activations", flax, {"unused": True}),
    Case("loads", ONE, "a generator and a critic by turns", alternating, {"together": False}, {"together": True}),
    Case("loads", ONE, "evaluation at each step", flax, {"evaluated": "apart"}, {"evaluated": "inside"}),
    Case("loads", "^pad ", "a smaller last batch", equinox, {"last": 20}, {"last": 20, "padded": True}, within=1e-4),
    Case("loads", "^make jit_make_step one", "a rate that is static", equinox, {"rate": "static"}),
    Case("streaming", IO_TILES, "module, as in equinox", equinox, {"batch": 2048}, {"batch": 2048, "io_tiles": 32}),
    Case("streaming", SENT, "module, as in equinox", equinox, {"batch": 2048}, {"batch": 2048, "dtype": F16}, within=1e-2),
    Case("streaming", IO_TILES, "wide batches", flax, WIDE, {**WIDE, "io_tiles": 32}, small=TINY),
    Case("streaming", SENT, "wide batches", flax, WIDE, {**WIDE, "dtype": F16}, small=TINY, within=0.1),
    Case("feeds", "num_io_tiles", "dense layers", fed, {"io_tiles": 0}, {"io_tiles": 32}, small=TINY, public=False),
    Case(
        "feeds", "num_io_tiles", "images", fed, {"io_tiles": 0, "what": "images"}, {"io_tiles": 32, "what": "images"}, small={"batch": 16}
    ),
    Case(
        "feeds",
        "num_io_tiles",
        "regression",
        fed,
        {"io_tiles": 0, "what": "regression"},
        {"io_tiles": 32, "what": "regression"},
        small=TINY,
    ),
    Case("offload", KEEP, "momentum", away, {"memory": "pinned_host"}, {"memory": "device"}),
    Case("offload", KEEP, "moments of Adam", away, {"memory": "pinned_host", "adam": True}, {"memory": "device", "adam": True}),
    Case(
        "offload", "offload_optimizer_state=False", "a pipeline", pipelined, {**TWO, "offloaded": None}, TWO, 160, small=TINY, public=False
    ),
    Case("offload", "offload_optimizer_state=False", "two towers", two_towers, {"kept": False}, {"kept": True}, steps=10),
    Case("products", BATCH, "training", batched, {"times": 1, "training": True}, {"training": True}, 320, LAYERS, 5e-2),
    Case("products", BATCH, "an inference", batched, {"times": 1, "training": False}, {"training": False}, 320, LAYERS),
    Case(
        "products",
        BATCH,
        "an inference that is read",
        batched,
        {"times": 1, "training": False, "read": True},
        {"training": False, "read": True},
        320,
        LAYERS,
    ),
    Case(
        "products",
        r"^make the batch of .* (\d+) samples",
        "a loop that is called each epoch",
        epochs,
        {"times": 1},
        NONE,
        320,
        FEW,
        0.15,
        public=False,
    ),
    Case("steps", BATCH, "gains", elementwise, {"times": 1, "what": "trained"}, {"what": "trained"}, 320, FEW, 5e-2, public=False),
    Case(
        "steps", BATCH, "particles that roll down", elementwise, {"times": 1, "what": "rolled"}, {"what": "rolled"}, 320, FEW, public=False
    ),
    Case(
        "steps", BATCH, "a filter of signals", elementwise, {"times": 1, "what": "filtered"}, {"what": "filtered"}, 320, FEW, public=False
    ),
    Case("doubles", SINGLES, "images", predicting, {**IMAGES, "dtype": F64}, {**IMAGES, "dtype": F32}, 20, NONE),
    Case("doubles", SINGLES, "a language model", predicting, {**LANGUAGE, "dtype": F64}, {**LANGUAGE, "dtype": F32}, 20, TINY),
    Case("doubles", SINGLES, "dense layers", predicting, {**DENSE, "dtype": F64}, {**DENSE, "dtype": F32}, 20, TINY, public=False),
    Case("halves", HALVES, "images", predicting, {**IMAGES, "dtype": F32}, {**IMAGES, "dtype": F16}, 20, NONE, 1e-2),
    Case("halves", HALVES, "a language model", predicting, {**LANGUAGE, "dtype": F32}, {**LANGUAGE, "dtype": F16}, 20, TINY, 1e-2),
    Case("halves", HALVES, "dense layers", predicting, {**DENSE, "dtype": F32}, {**DENSE, "dtype": F16}, 20, TINY, 1e-2, public=False),
    Case("halves", HALVES, "the tutorial in three steps", tutorial_steps, NONE, {"half": True}, 20, within=1e-2),
    Case("partials", PARTIALS, "images", predicting, {**IMAGES, "dtype": F16}, {**IMAGES, "dtype": F16, "sums": "half"}, 20, NONE),
    Case(
        "partials",
        PARTIALS,
        "a language model",
        predicting,
        {**LANGUAGE, "dtype": F16},
        {**LANGUAGE, "dtype": F16, "sums": "half"},
        20,
        TINY,
    ),
    Case(
        "partials",
        PARTIALS,
        "dense layers",
        predicting,
        {**DENSE, "dtype": F16},
        {**DENSE, "dtype": F16, "sums": "half"},
        20,
        TINY,
        public=False,
    ),
    Case("collectives", r"^accumulate (\d+) steps", "data-parallel training", divided, NONE, steps=128, within=0.2),  # dry, cond has no way
    Case("collectives", EXCHANGED, "data-parallel training", divided, NONE, {"dtype": F16}, 40, FEW, 5e-2),
    Case("collectives", EXCHANGED, "wide layers", divided, {"width": 1024}, {"width": 1024, "dtype": F16}, 20, FEW, 5e-2),
    Case(
        "pipeline",
        "^cut .* into stages of 3, 3 ",
        "two stages that differ",
        pipelined,
        {**WIDE, "layers_of": (1, 5)},
        {**WIDE, "layers_of": (3, 3)},
        64,
        MOVING,
        public=False,
    ),
    Case(
        "pipeline",
        "^cut .* into stages of 2, 2, 2 ",
        "a first stage that is long",
        pipelined,
        {"width": 512, "batch": 256, "microbatches": 6, "layers_of": (4, 1, 1)},
        {"width": 512, "batch": 256, "microbatches": 6, "layers_of": (2, 2, 2)},
        60,
        MOVING,
        public=False,
    ),
    Case(
        "pipeline",
        "^cut .* into stages of 2, 2, 2 ",
        "stages that differ",
        pipelined,
        {**WIDE, "microbatches": 6, "layers_of": (1, 4, 1)},
        {**WIDE, "microbatches": 6, "layers_of": (2, 2, 2)},
        60,
        MOVING,
        public=False,
    ),
    Case(
        "bubbles",
        MICROBATCHES,
        "two stages",
        pipelined,
        {"layers_of": (2, 2, 2, 2), "deep": 32},
        {"layers_of": (2, 2, 2, 2), "deep": 32, "microbatches": 32},
        256,
        {**MOVING, "steps": 64},
        5e-2,
        public=False,
    ),
    Case(
        "bubbles",
        MICROBATCHES,
        "few microbatches",
        pipelined,
        FOUR,
        {**FOUR, "microbatches": 32},
        256,
        {**MOVING, "steps": 64},
        5e-2,
        public=False,
    ),
    Case(
        "bubbles",
        "^use pipeline_schedule",
        "one after the other",
        pipelined,
        {"layers_of": (1, 1), "deep": 500, "microbatches": 4, "schedule": "sequential"},
        {"layers_of": (1, 1), "deep": 500, "microbatches": 4},
        32,
        {**MOVING, "deep": 2},
        public=False,
    ),
    Case(
        "products",
        r"^make microbatches of .* (\d+) samples",
        "a PopART pipeline",
        session,
        PIPELINE,
        PIPELINE,
        320,
        within=0.1,
        public=False,
    ),
    Case(
        "bubbles",
        "enablePipelining",
        "a PopART session of two stages",
        session,
        {**SHARDED, "pipelined": False},
        SHARDED,
        128,
        public=False,
    ),
    Case("results", "^return .* as Final", "a PopART session", session, {**SINGLE, "returned": "All"}, SINGLE, 128, public=False),
    Case("reads", "weightsToHost", "a PopART session", session, {**SINGLE, "reads": True}, SINGLE, 128, public=False),
    Case("memory", "^recompute", "layers in a scan", descending, NONE, {"way": "recompute"}, 1, LAYERS, public=False),
    Case(
        "memory",
        "^keep momentum in pinned_host",
        "layers in a scan",
        descending,
        FULL,
        {**FULL, "way": "offload"},
        1,
        LAYERS,
        public=False,
    ),
    Case("memory", "^divide x along axis 0", "layers in a scan", descending, NONE, {"way": "spread"}, 1, LAYERS, public=False),
    Case("memory", "^divide params along", "layers in a scan", descending, FULL, {**FULL, "way": "states"}, 1, LAYERS, public=False),
    Case("memory", "^divide table along", "an embedding", embedded, {}, {"divided": True}, 1, {"words": 512}),
    Case("memory", "^divide weights", "a transformer's two layers", perceptron, {}, {"divided": True}, 1, {"width": 64}),
    Case("memory", "^make the batch 2,048", "layers in a scan", descending, NONE, {"way": "smaller"}, 1, LAYERS, public=False),
)
