"""`tilestep.plan_training()`: checks what it is asked, and searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from tilestep.machine.spec import MachineSpec
from tilestep.machine.toml import load_machine
from tilestep.messages import shown
from tilestep.planner.estimates import Estimates
from tilestep.planner.model import Layer, Model, bytes_of
from tilestep.planner.plans import PlanningInterrupt, TrainingPlans, ranked
from tilestep.planner.replay import PlayedCandidate, played
from tilestep.planner.search import search
from tilestep.planner.sharding import Specs, divides, specs_of
from tilestep.planner.space import OFFLOAD, RECOMPUTE, SCHEDULES, Candidate, Offloaded, Recomputed, ScheduleName, candidates, divisors
from tilestep.train import LayerCost, Partition
from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import items_of, name_of, require_bools, require_function, require_kind, require_tree
from tilestep.train.pipeline.arguments import ties_of
from tilestep.train.planned import GivenOptions
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

if TYPE_CHECKING:
    import optax

_MOST_SAMPLES_OF_UPDATE: Final = 2**20
_REPLAYS: Final = 16
_HOW_SHAPES: Final = "arrays or shapes (jax.ShapeDtypeStruct) whose first dimension counts samples, such as (tokens, labels)"
T = TypeVar("T")


def plan_training(
    layers: Sequence[Layer],
    params: Sequence[Pytree],
    *,
    optimizer: optax.GradientTransformation,
    microbatch: Sequence[Any],
    machine: str | MachineSpec,
    global_batch: int,
    loss: Layer | None = None,
    microbatch_sizes: Sequence[int] | None = None,
    schedules: Sequence[ScheduleName] = ("grouped", "interleaved", "zero_bubble"),
    recompute: Sequence[Recomputed] = RECOMPUTE,
    offload: Sequence[Offloaded] = (None, "state"),
    sharding: Sequence[Pytree] | None = None,
    shards: Sequence[int] | None = None,
    tied: Sequence[Sequence[Any]] = (),
    cuts: Sequence[Sequence[int]] = (),
    shard_optimizer_state: bool = False,
    plan_options: GivenOptions | None = None,
    replays: int = _REPLAYS,
    exhaustive: bool = False,
    progress: Callable[[int, str], None] | None = None,
) -> TrainingPlans:
    """Searches for the fastest way to train a model on a machine: stages x IPUs of a stage x replicas x microbatch x schedule x
    recomputation x offload.

    Each kind of layer is planned alone to guess what a plan takes. The emulator plays the most promising plans, two updates each in a dry
    run: nothing is computed, and parameters may be shapes. Bounds that hold for every plan say how far from the fastest the best of them
    can be. What does not fit is not proposed. The machine need not be that of platform `ipu`, which is left alone.

    Args:
        layers: functions (params, *args) -> outputs, without random keys or auxiliary state. The outputs of each are the arguments of the
            next, and the last one returns the mean loss of its samples, a real scalar, first.
        params: for each layer a pytree of arrays or shapes.
        optimizer: a transformation of optax.
        microbatch: arguments of the first layer: arrays or shapes `[samples, ...]`. How many samples they have does not matter.
        machine: a name, the path of a TOML file, or a `MachineSpec`.
        global_batch: samples of an update, over all microbatches and replicas.
        loss: a function of the last layer's outputs that returns the mean loss, if that layer does not.
        microbatch_sizes: samples that a microbatch of one replica may have; those that divide no replica's share are left out. None: all
            divisors of the global batch.
        schedules: names of schedules: "sequential", "grouped", "interleaved", "zero_bubble".
        recompute: None keeps what backward needs, "full" computes it again.
        offload: what is in the host's memory while it is not used: None, "state" (the optimiser's), "activations", "accumulators" (sums of
            gradients, which go to the IPUs and back for each microbatch), or several of them in this order, joined by "+".
        sharding: how layers that one IPU does not hold are divided over the IPUs of a stage: for each layer a pytree like its params, of
            `PartitionSpec`s of the axis "shard". None, for a layer or a part of one, is whole on each IPU. A layer may divide values by
            `jax.lax.with_sharding_constraint` with such specs. XLA divides the rest, and adds the exchanges.
        shards: how many IPUs a stage may have; those that do not divide the axes of `sharding` are left out. None: 1, and with `sharding`
            the powers of two up to the number of IPUs.
        tied: parameters that stay equal, as for `Pipeline`: a list of lists of paths (layer, key, ...). If the last layer has some, it may
            be a stage of its own on the first stage's IPUs, which hold such parameters once.
        cuts: ways to cut the layers that are considered besides those that balance time or bytes: for each stage the number of its first
            layer, and at the end the number of layers. The most promising plan of each is played first.
        shard_optimizer_state: whether each replica keeps only its part of the optimiser's state.
        plan_options: how all programs are planned, as for `Pipeline`, such as {"available_memory_proportion": 0.1}.
        replays: plans that the emulator plays at most. More of them make the gap smaller.
        exhaustive: whether to play plans until none that is left can be faster, however many these are.
        progress: called with the number of plans that have been played, and the text of the one that is played next.

    Returns:
        The plans that fit, the fastest first, and the gap.

    Raises:
        TypeError: if an argument is of another type.
        ValueError: if an argument is out of bounds, layers and params are not as many, or no plan is possible with such sizes.
        SpecError: for a machine that there is not.
        KeyboardInterrupt: after Ctrl-C; if a plan has been played, with `plans`, the result of the search until then.
        Exception: of a layer, with a note that names its number, or of a plan, with a note that names it.
    """
    layers = items_of("layers", layers, "a list of functions (params, *args) -> outputs")
    for number, layer in enumerate(layers):
        require_function(f"layers[{number}]", layer, "(params, *args) -> outputs")
    params = items_of("params", params, "a list with an entry for each layer")
    if not layers or len(params) != len(layers):
        raise ValueError(f"there are {len(layers)} layers and {len(params)} entries of params: give one for each layer, and at least one")
    require_tree("params", params)
    if loss is not None:
        require_function("loss", loss, "(*outputs of the last layer) -> mean loss")
    if not (callable(getattr(optimizer, "init", None)) and callable(getattr(optimizer, "update", None))):
        raise TypeError(f"optimizer is {shown(optimizer)}: it must be a transformation of optax, such as optax.adam(1e-3)")
    sample = items_of("microbatch", microbatch, _HOW_SHAPES)
    for leaf in _jax.tree.leaves(sample):
        if not getattr(leaf, "shape", ()):
            raise ValueError(f"microbatch has {shown(leaf)}: it must be {_HOW_SHAPES}")
    global_batch = whole_number("global_batch", global_batch, least=1, most=_MOST_SAMPLES_OF_UPDATE)
    replays = whole_number("replays", replays, least=1)
    require_bools(exhaustive=exhaustive)
    if progress is not None:
        require_function("progress", progress, "(plans played, text of the next) -> None")
    schedules, recompute = _chosen("schedules", schedules, SCHEDULES), _chosen("recompute", recompute, RECOMPUTE)
    offload, sizes = _chosen("offload", offload, OFFLOAD), _sizes(microbatch_sizes, global_batch)
    require_bools(shard_optimizer_state=shard_optimizer_state)
    nothing = tuple(LayerCost(name=name_of(layer), work=0) for layer in layers)
    given = [Partition(cuts=own, costs=nothing).cuts for own in items_of("cuts", cuts, "a list of cuts, such as [(0, 2, 4)]")]
    spec = _machine(machine)
    shapes = _jax.tree.map(_shape_of, list(params))
    specs = None if sharding is None else specs_of(sharding, shapes)
    counts = _shards(shards, specs, shapes, spec)
    ties = ties_of(tied, [[layer] for layer in layers], "layer")
    model = Model(layers, shapes, _jax.tree.map(_shape_of, sample), loss, specs, plan_options, ties)
    state = [_jax.tree.leaves(_jax.eval_shape(optimizer.init, own)) for own in model.params]
    state_bytes = [bytes_of([leaf for leaf in own if leaf.size > 1]) for own in state]  # scalars stay where they are
    estimates = Estimates(model, state_bytes, spec, counts, sizes, global_batch)
    space = candidates(
        estimates.cuts(given),
        num_ipus=spec.num_ipus,
        global_batch=global_batch,
        microbatches=sizes,
        schedules=schedules,
        recompute=recompute,
        offload=offload if any(state_bytes) else [away for away in offload if "state" not in (away or "")] or [None],
        divides_state=shard_optimizer_state and any(state_bytes),
    )
    possible = [candidate for candidate in space if estimates.least_fullness(candidate) <= 1]
    done = 0

    def replay(number: int) -> PlayedCandidate:
        nonlocal done
        if progress is not None:
            progress(done, possible[number].text)
        done += 1
        return played(model, possible[number], optimizer, spec)

    expected = [estimates.expected(candidate) for candidate in possible]
    alike = [[number for number, candidate in enumerate(possible) if candidate.stages == own] for own in given]
    first = [min(numbers, key=lambda number: (expected[number].fullness > 1, expected[number].cycles)) for numbers in alike if numbers]
    found = search(expected, replay, lambda play: play.shown, most=None if exhaustive else replays, first=first)
    if found.ended_by is not None and not found.replays:
        raise found.ended_by
    replayed = [(possible[number], play) for number, play in found.replays]
    best = None if found.best is None else dict(found.replays)[found.best]
    plans = TrainingPlans(
        plans=ranked(replayed, model, optimizer, spec, global_batch),
        machine=spec.name,
        global_batch=global_batch,
        considered=len(space),
        impossible=len(space) - len(possible),
        replayed=len(replayed),
        gap=None if best is None else max(0.0, best.cycles / found.least_cycles - 1),
        nearest="" if best is not None else _nearest(replayed, space, estimates, spec),
    )
    if found.ended_by is not None:
        raise PlanningInterrupt(plans) from found.ended_by
    return plans


def _nearest(
    replayed: Sequence[tuple[Candidate, PlayedCandidate]], space: Sequence[Candidate], estimates: Estimates, spec: MachineSpec
) -> str:
    if replayed:
        candidate, play = min(replayed, key=lambda each: each[1].shown.fullness)
        return f"The nearest is {candidate.text}: {play.lacks}."
    if not space:
        return "No microbatch of these sizes divides the global batch."
    candidate = min(space, key=estimates.least_fullness)
    return (
        f"The nearest is {candidate.text}: its parameters, and what belongs to each of them, alone need "
        f"{estimates.least_fullness(candidate):.2f} times the memory of the tiles of {spec.name}. A machine with more IPUs, smaller "
        "layers, or `sharding`, which divides a layer over several IPUs, may hold it."
    )


def _chosen(name: str, given: Any, known: Sequence[T]) -> tuple[T, ...]:
    """What is given, each once. Raises: TypeError for what is no list, ValueError for an unknown entry."""
    must = f"a list of {', '.join(map(repr, known))}"
    items = items_of(name, given, must)
    if wrong := [item for item in items if item not in known]:
        raise ValueError(f"{name} has {shown(wrong[0])}: it must be {must}")
    if not items:
        raise ValueError(f"{name} is empty: it must be {must}")
    return cast("tuple[T, ...]", tuple(dict.fromkeys(items)))


def _counts(name: str, given: Any, most: int | None, of: str) -> list[int]:
    """What is given, ascending. Raises: TypeError, ValueError for what is no list of whole numbers from 1 to `most`."""
    items = items_of(name, given, f"a list of numbers of {of}, such as [1, 2, 4]")
    return sorted({whole_number(f"{name}[{index}]", count, least=1, most=most) for index, count in enumerate(items)})


def _sizes(given: Any, global_batch: int) -> list[int]:
    if given is None:
        return divisors(global_batch)
    sizes = _counts("microbatch_sizes", given, None, "samples")
    fitting = [size for size in sizes if global_batch % size == 0]
    if not fitting:
        raise ValueError(f"microbatch_sizes is {shown(sizes)}: at least one must divide the global batch of {global_batch:,}")
    return fitting


def _shards(given: Any, specs: Sequence[Specs] | None, params: Sequence[Pytree], machine: MachineSpec) -> list[int]:
    if given is None:
        counts = [1 << power for power in range(machine.num_ipus.bit_length())] if specs is not None else [1]
    else:
        counts = _counts("shards", given, machine.num_ipus, "IPUs")
        if specs is None and counts != [1]:
            raise ValueError(f"shards is {shown(counts)}, but without sharding nothing says how a layer is divided over IPUs: give both")
    fitting = [count for count in counts if specs is None or divides(specs, params, count)]
    if not fitting:
        raise ValueError(f"shards is {shown(counts)}: at least one must divide each axis that sharding names")
    return fitting


def _machine(machine: Any) -> MachineSpec:
    if isinstance(machine, str):
        return load_machine(machine)
    require_kind(
        "machine", machine, MachineSpec, 'the name of a machine, such as "bow-pod16" (tilestep machines lists them), or a MachineSpec'
    )
    return machine


def _shape_of(leaf: Any) -> Any:
    return _jax.ShapeDtypeStruct(_jax.numpy.shape(leaf), _jax.dtypes.canonicalize_dtype(_jax.dtypes.result_type(leaf)))
