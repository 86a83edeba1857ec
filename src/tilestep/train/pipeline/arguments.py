"""Checks the arguments of `Pipeline` before anything runs, and turns them into one entry for each stage."""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence, Set, Sized
from typing import Any, Final, cast

from jax.sharding import Mesh

from tilestep.messages import shortened, shown
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.gradients.accumulation import AccumulationState
from tilestep.train.numbers import whole_number
from tilestep.train.offload import Offload, choice_for
from tilestep.train.other_arguments import belongs_to, items_of, refuse_misplaced, require_bools, require_kind, require_tree
from tilestep.train.replicas.groups import groups_of
from tilestep.train.schedules.loading import loading_parameters
from tilestep.train.schedules.schedule import Schedule
from tilestep.train.schedules.standard import MOST_FORWARDS, SCHEDULES, offloading
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

# Names in lower case without signs: of PyTorch's classes (torch.distributed.pipelining), and of the papers that `schedules` cites.
_OTHER_NAMES: Final[dict[str, str]] = {
    "1f1b": "interleaved",
    "interleaved1f1b": "looped",
    "zbh1": "zero_bubble",
    "pipedream": "stashed",
    "pipedreamflush": "interleaved",
}

StageFunction = Callable[..., Any]
Path = tuple[int, tuple[Any, ...]]  # a stage, and keys within its parameters


def levels_of(stages: Any) -> tuple[tuple[StageFunction, ...], ...]:
    """The stages by level: those of one level run at the same time. Raises: TypeError, ValueError if they are no stages."""
    if not isinstance(stages, list | tuple):
        raise TypeError(
            f"stages is a {type(stages).__name__}: it must be a list of functions, such as [embed, head], or [embed, [left, right], head] "
            "with concurrent ones"
        )
    levels: list[tuple[StageFunction, ...]] = []
    for index, entry in enumerate(cast("Sequence[Any]", stages)):
        members = tuple(cast("Sequence[Any]", entry)) if isinstance(entry, list | tuple) else (entry,)
        if not members:
            raise ValueError(f"stages[{index}] is empty: a list of concurrent stages has at least one")
        for member in members:
            if isinstance(member, list | tuple):
                raise TypeError(
                    f"stages[{index}] has a list within a list: concurrent stages are not nested, as in [embed, [left, right], head]"
                )
            if not callable(member):
                raise TypeError(
                    f"stages[{index}] is or has a {type(member).__name__}: stages are functions (params, *args) -> outputs"
                    f"{belongs_to(member, 'devices', 'mesh', 'optimizer', 'pipeline_schedule')}"
                )
        levels.append(members)
    if not levels:
        raise ValueError("stages is empty: a pipeline has at least one stage")
    return tuple(levels)


def entries_of(device_mapping: Any, levels: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Each stage's device: its index, several indices, or a mesh. Raises: TypeError, ValueError."""
    if device_mapping is None:
        return tuple(range(sum(map(len, levels))))
    if not isinstance(device_mapping, list | tuple):
        raise TypeError(f"device_mapping is a {type(device_mapping).__name__}: it must be a list with a device's index for each stage")
    return tuple(_entry(entry) for entry in flat(cast("Sequence[Any]", device_mapping), levels, "device_mapping"))


def _entry(entry: Any) -> Any:
    if isinstance(entry, Mesh):
        return entry
    if not isinstance(entry, list | tuple):
        hint = ", an index of devices" + belongs_to(entry, "devices")
        return whole_number("an entry of device_mapping", entry, least=0, hint=hint)
    indices = tuple(whole_number("an entry of device_mapping", index, least=0) for index in cast("Sequence[Any]", entry))
    if not indices or len(set(indices)) < len(indices):
        raise ValueError(f"an entry of device_mapping is {list(indices)}: a stage on a mesh has one or more devices, each once")
    first, *others = indices
    return indices if others else first


def ties_of(tied: Any, levels: Sequence[Sequence[Any]], of: str = "stage") -> tuple[tuple[Path, ...], ...]:
    """Paths of parameters that are one, with the stages' numbers. Args: of: what a level is. Raises: TypeError, ValueError."""
    starts = [sum(map(len, levels[:index])) for index in range(len(levels))]

    def path(given: object) -> Path:
        if not isinstance(given, list | tuple) or len(cast("Sequence[Any]", given)) < 2:
            several = ", or ((stage, member), key, ...)" if of == "stage" else ""
            raise TypeError(f'tied has {shown(given)}: it must be a path ({of}, key, ...), such as (0, "embedding"){several}')
        where, *keys = cast("Sequence[Any]", given)
        level, member = cast("Sequence[Any]", where) if isinstance(where, list | tuple) else (where, None)
        level = whole_number(f"a {of} of tied", level, least=0, most=len(levels) - 1)
        if member is None and len(levels[level]) > 1:
            raise ValueError(
                f"tied has {shown(given)}, but stage {level} is {len(levels[level])} concurrent ones: name one, (({level}, 0), ...)"
            )
        return starts[level] + whole_number("a member of tied", member or 0, least=0, most=len(levels[level]) - 1), tuple(keys)

    if not isinstance(tied, list | tuple):
        raise TypeError(f"tied is a {type(tied).__name__}: it must be a list whose entries name parameters that are one")
    found: list[tuple[Path, ...]] = []
    for entry in cast("Sequence[Any]", tied):
        if not isinstance(entry, list | tuple) or len(cast("Sequence[Any]", entry)) < 2:
            raise ValueError(f"tied has {shown(entry)}: an entry names two or more parameters that are one")
        found.append(tuple(path(given) for given in cast("Sequence[Any]", entry)))
    return tuple(found)


def flat(nested: Sequence[Any], levels: Sequence[Sequence[Any]], what: str) -> list[Any]:
    """One entry for each stage. Raises: TypeError for what is no list, ValueError if there are more or fewer."""
    given: Any = nested  # a caller's mistake may be anything
    if isinstance(given, Mapping | Set | str) or not isinstance(given, Sized) or getattr(given, "ndim", 1) == 0:
        raise TypeError(f"{what} is a {type(nested).__name__}: it must be a list with an entry for each of the {len(levels)} stages")
    if len(nested) != len(levels):
        raise ValueError(f"{what} has {len(nested)} entries, but there are {len(levels)} stages: give one for each")
    found: list[Any] = []
    for index, (entry, members) in enumerate(zip(nested, levels, strict=True)):
        if len(members) == 1:
            found.append(entry)
            continue
        if not isinstance(entry, list | tuple) or len(cast("Sequence[Any]", entry)) != len(members):
            raise ValueError(
                f"{what}[{index}] must be a list with one entry for each of the {len(members)} concurrent stages, as stages[{index}] is a "
                f"list of {len(members)}"
            )
        found += cast("Sequence[Any]", entry)
    return found


def nested(flat: Sequence[Any], levels: Sequence[Sequence[Any]]) -> list[Any]:
    rest = iter(flat)
    return [next(rest) if len(members) == 1 else [next(rest) for _ in members] for members in levels]


def schedule_of(
    wanted: Any,
    levels: Sequence[Sequence[Any]],
    count: int,
    mapping: Sequence[int],
    *,
    training: bool,
    strict: bool,
    offloaded: Sequence[int],
    loads: bool,
) -> Schedule:
    """The schedule for stages on such devices.

    Args: offloaded: stages whose activations go to the host's memory. loads: whether parameters stay there between a stage's tasks. Weights
        that change within a run are loaded by the programs that read them.
    Raises: TypeError, ValueError.
    """
    found = _schedule(wanted, levels, count, mapping, training=training, strict=strict)
    found = offloading(found, offloaded) if offloaded else found
    return loading_parameters(found) if loads and found.weights == "same" and not found.loads_parameters else found


def parameters_away(offload: Offload) -> Offload:
    """Which parameters are in the host's memory: only a mapping has an entry for them. Raises: TypeError, ValueError."""
    choice = choice_for(offload, "parameters")
    return {"parameters": choice if isinstance(offload, Mapping) else False}


def offloaded_of(offload_activations: Any) -> list[Any]:
    """The stages' numbers. Raises: TypeError for what is neither a bool nor a list."""
    if offload_activations is None or offload_activations is False:
        return []
    given = items_of("offload_activations", offload_activations, "True, False or a list of stages' numbers, such as [0, 1]")
    return [whole_number(f"offload_activations[{index}]", stage, least=0) for index, stage in enumerate(given)]


def mask_of(outfeed_mask: Any) -> tuple[Any, ...]:
    """Whether each item is hidden. Raises: TypeError for what is no list."""
    mask = items_of("outfeed_mask", outfeed_mask, "a list of bool, one for each item that the last stage returns")
    require_bools(**{f"outfeed_mask[{index}]": hidden for index, hidden in enumerate(mask)})
    return mask


def _numbered(sizes: Sequence[int]) -> list[list[int]]:
    """Levels as a schedule has them."""
    return [list(range(end - size, end)) for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)]


def _named_otherwise(wanted: str) -> str | None:
    """The name of a schedule that papers and other libraries call so, or that is written in another way."""
    plain = re.sub("[^a-z0-9]", "", wanted.lower().rpartition(".")[2]).removeprefix("schedule").removeprefix("pipeline")
    return _OTHER_NAMES.get(plain) or next((name for name in SCHEDULES if name.replace("_", "") == plain), None)


def _schedule(
    wanted: Any, levels: Sequence[Sequence[Any]], count: int, mapping: Sequence[int], *, training: bool, strict: bool
) -> Schedule:
    numbers = {index: place for place, index in enumerate(sorted(set(mapping)))}
    compact = [numbers[index] for index in mapping]
    sizes = [len(members) for members in levels]
    if isinstance(wanted, Schedule):
        if tuple(map(len, wanted.levels)) != tuple(sizes):
            raise ValueError(
                f"the schedule {wanted.name} is for levels of {tuple(map(len, wanted.levels))} stages, these are {tuple(sizes)}: make it "
                f"for these, such as schedules.grouped({shortened(str(sizes))}, {count}), or from_table(rows, "
                f"levels={shortened(str(_numbered(sizes)))}); or change stages, where a level of several is a list within the list"
            )
        if wanted.microbatches != count:
            raise ValueError(
                f"the schedule {wanted.name} is for {wanted.microbatches} microbatches, gradient_accumulation_count is {count}"
            )
        if wanted.training != training:
            raise ValueError(f"the schedule {wanted.name} is for {'training' if wanted.training else 'inference'}: see optimizer")
        return wanted
    if not isinstance(wanted, str):
        hint = f"; call it: schedules.grouped({shortened(str(sizes))}, {count})" if callable(wanted) else ""
        hint = "; from_table makes a Schedule of a table" if isinstance(wanted, list | tuple) else hint
        raise TypeError(f"pipeline_schedule is a {type(wanted).__name__}: it must be a Schedule or a name: {', '.join(SCHEDULES)}{hint}")
    if wanted not in SCHEDULES:
        same = _named_otherwise(wanted)
        raise ValueError(
            f"pipeline_schedule is {shown(wanted)}: it must be a Schedule or one of {', '.join(SCHEDULES)}"
            + (f"; the name here is {shown(same)}" if same else "")
        )
    if sum(sizes) * count > MOST_FORWARDS:
        raise ValueError(
            f"gradient_accumulation_count is {shown(count)}: a schedule of {sum(sizes)} stages has at most {MOST_FORWARDS // sum(sizes):,} "
            "microbatches; give fewer, with more samples each"
        )
    if not training and wanted not in ("sequential", "grouped", "interleaved"):
        raise ValueError(f"the {wanted} schedule is for training: give an optimizer, or choose sequential, grouped or interleaved")
    if wanted == "looped":
        devices = max(compact) + 1
        if len(compact) % devices:
            raise ValueError(
                f"the looped schedule has equally many stages on each device, but there are {len(compact)} on {devices}: give a multiple "
                f"of {devices} stages, or choose interleaved"
            )
        if compact != [stage % devices for stage in range(len(compact))] or max(sizes) > 1:
            raise ValueError(
                f"the looped schedule goes round all devices: device_mapping must be {[s % devices for s in range(len(compact))]}"
            )
        return SCHEDULES[wanted](devices, count, rounds=len(compact) // devices, strict=strict)
    options: dict[str, Any] = {"device_mapping": compact, "strict": strict}
    if not training:
        options["training"] = False
    return SCHEDULES[wanted](sizes, count, **options)


def typed_key(key: Any) -> Any:
    """A random key as JAX has them now. Raises: TypeError for what is none."""
    if key is None:
        return None
    if hasattr(key, "dtype") and _jax.dtypes.issubdtype(key.dtype, _jax.dtypes.prng_key):
        return key
    try:
        return _jax.random.wrap_key_data(key)
    except (TypeError, ValueError) as error:
        raise TypeError(f"key is {shown(key)}: it must be a random key, such as jax.random.key(0)") from error


def require_optimizer(optimizer: Any, offload: Offload) -> None:
    """Raises: TypeError, ValueError."""
    has_both = all(callable(getattr(optimizer, name, None)) for name in ("init", "update"))  # which a dict and a set have not
    if isinstance(optimizer, type) or not (has_both or callable(optimizer)):
        raise TypeError(f"optimizer is a {type(optimizer).__name__}: it must be a transformation of optax, or a function that returns one")
    choice_for(offload, "optimizer_state")


def require_division(given: bool | int, shard: bool, group_size: int | None, replicas: int) -> None:
    """Args: given: as the author has. Raises: ValueError if replicas cannot divide the optimiser's state so."""
    if shard and replicas == 1:
        raise ValueError(
            f"shard_optimizer_state is {shown(given)}, but the pipeline has one replica: there is nobody to divide the state with"
        )
    try:
        groups_of(replicas, group_size)
    except ValueError as error:
        raise ValueError(f"shard_optimizer_state is {shown(given)}: {error}") from None


def require_replicas(infeed: InfeedQueue, replicas: int) -> None:
    """Raises: ValueError for a queue whose steps are of another number of elements than a pipeline's replicas."""
    if replicas > 1 and infeed.elements_per_step != replicas:
        raise ValueError(
            f"the pipeline has {replicas} replicas, but a step of the InfeedQueue is of {infeed.elements_per_step}: make it "
            f"InfeedQueue(dataset, replicas={replicas}), which gives each replica its own element"
        )
    if replicas == 1 and infeed.replicas is not None:
        raise ValueError("the InfeedQueue is made for replicas, but the pipeline has one: leave replicas away from the InfeedQueue")


def accumulates(tree: Pytree) -> bool:
    """Whether an optimiser's state has an accumulation of its own."""
    found = _jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, AccumulationState))
    return any(isinstance(node, AccumulationState) for node in found)


def require_feeds(infeed: object, outfeed: object, *, needs_infeed: bool) -> None:
    """Raises: TypeError for what is no queue; ValueError if there is no infeed where one is needed."""
    if infeed is not None:
        require_kind("infeed", infeed, InfeedQueue, "an InfeedQueue, such as InfeedQueue(dataset)", "outfeed")
    if outfeed is not None:
        require_kind("outfeed", outfeed, OutfeedQueue, "an OutfeedQueue", "infeed", "repeat_count")
    if infeed is None and needs_infeed:
        raise ValueError("infeed is None, but this process has the first stage: give it an InfeedQueue")


def require_watched(watched: object, outfeed: object, *, watches: bool, in_processes: bool) -> None:
    """Raises: TypeError for what is no queue; ValueError if nothing is watched, the queue is the outfeed, or no process has all values."""
    if watched is None:
        return
    require_kind("watched", watched, OutfeedQueue, "an OutfeedQueue", "infeed", "repeat_count")
    if not watches:
        raise ValueError('watched is a queue, but the pipeline watches nothing: say what, as in Pipeline(..., watch=["hidden"])')
    if watched is outfeed:
        raise ValueError("watched and outfeed are the same queue: give each one of its own")
    if in_processes:
        raise ValueError(
            "watched is a queue, but the stages are in several processes, each of which has only the values of its own stages: leave it "
            "away, and use step(), whose Watched has them"
        )


def require_one_loss(levels: Sequence[Sequence[StageFunction]]) -> None:
    """Raises: ValueError for several last stages."""
    if len(levels[-1]) > 1:
        raise ValueError(
            f"the last stage is {len(levels[-1])} concurrent ones: in training it must be one that returns the loss; add a stage, as in "
            "[embed, [left, right], loss]"
        )


def require_one_time(schedule: Schedule) -> None:
    """Raises: ValueError for a schedule that cannot have tied parameters."""
    if schedule.weights != "same":
        raise ValueError(
            f"tied parameters are updated at one time, but the {schedule.name} schedule updates each stage at another: give a schedule "
            "whose weights stay the same within a run"
        )


def require_microbatches(microbatches: Pytree, count: int, replicas: int) -> None:
    """Raises: TypeError for what has no shape; ValueError for arrays of another number of microbatches or replicas."""
    refuse_misplaced("microbatches", microbatches, "arrays; run() takes elements of a queue", "infeed")
    require_tree("microbatches", microbatches)
    leaves = _jax.tree.leaves(microbatches)
    others = [leaf for leaf in leaves if not hasattr(leaf, "shape")]
    if others:
        raise TypeError(
            f"microbatches has {shown(others[0])}: it must have arrays, whose first axis is the {count} microbatches of an update"
        )
    wrong = [leaf.shape for leaf in leaves if not leaf.shape or leaf.shape[0] != count]
    if wrong or not leaves:
        found = f"an array of shape {wrong[0]}" if wrong else "no arrays"
        raise ValueError(f"microbatches has {found}: the first axis of each must be the {count} microbatches of an update")
    several = [leaf.shape for leaf in leaves if replicas > 1 and leaf.shape[1:2] != (replicas,)]
    if several:
        raise ValueError(f"microbatches has an array of shape {several[0]}: the second axis of each must be the {replicas} replicas")
