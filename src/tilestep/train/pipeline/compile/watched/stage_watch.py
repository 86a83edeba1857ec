"""What is watched of each stage of a pipeline, found out from its marks and its parameters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

import jax

from tilestep.messages import shortened
from tilestep.train.pipeline.compile.watched.marks import WatchMark, has_gradient
from tilestep.train.pipeline.compile.watched.watch_keys import Gradient, How, Key, Parameter, WatchList, key_text
from tilestep.train.untyped import Pytree, Spec
from tilestep.train.untyped import jax as _jax
from tilestep.train.untyped import jnp as _jnp

_MOST_NAMED: Final = 300  # characters of a list of names


class WatchedValue(NamedTuple):
    """Something of a stage that is watched."""

    key: Key  # key by which the author gets it
    how: How  # which values of it
    name: str  # name of its mark; nothing for a parameter
    leaf: int  # index among the parameters' leaves; -1 for a marked value or its gradient
    shape: tuple[int, ...]  # shape, dtype: of one value; one replica's
    dtype: Any

    @property
    def spec(self) -> Any:
        """Shape and dtype."""
        return jax.ShapeDtypeStruct(self.shape, self.dtype)


@final
@dataclass(frozen=True, kw_only=True)
class StageWatch:
    """What of one stage is watched.

    Its programs return the rows, each of which is of one microbatch, and totals (sums, or latest values), which they take from one
    microbatch to the next.
    """

    values: tuple[WatchedValue, ...] = ()  # values of marks
    gradients: tuple[WatchedValue, ...] = ()  # gradients of marks, too
    params: tuple[WatchedValue, ...] = ()  # parameters after updates

    @property
    def names(self) -> frozenset[str]:
        """Marks whose values are wanted."""
        return frozenset(seen.name for seen in self.values)

    def slots(self) -> list[jax.Array]:
        """Zeros for the slots of gradients, in their order."""
        return [_jnp.zeros(seen.shape, seen.dtype) for seen in self.gradients]

    def by_name(self, slots: Sequence[jax.Array]) -> dict[str, jax.Array]:
        """Slots by the names of marks."""
        return {seen.name: slot for seen, slot in zip(self.gradients, slots, strict=True)}


NOTHING: Final = StageWatch()


def rows_of(of: Iterable[WatchedValue]) -> list[WatchedValue]:
    """What programs return of each microbatch."""
    return [seen for seen in of if seen.how == "all"]


def totals_of(of: Iterable[WatchedValue]) -> list[WatchedValue]:
    """What they reduce."""
    return [seen for seen in of if seen.how != "all"]


def given(of: Sequence[WatchedValue], values: Sequence[jax.Array], totals: Sequence[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
    """(rows, totals with one more microbatch). Args: values: of everything in `of`."""
    before = iter(totals)
    rows, after = list[jax.Array](), list[jax.Array]()
    for seen, value in zip(of, values, strict=True):
        if seen.how == "all":
            rows.append(value)
        elif seen.how == "sum":
            after.append(next(before) + value)
        else:  # the program takes the one before, so that the new one is where that was, and an IPU sends none of them away
            after.append(_jax.lax.optimization_barrier((value, next(before)))[0])
    return rows, after


def require_marked(watch: WatchList, names: Sequence[str], marks: Sequence[Sequence[WatchMark]]) -> None:
    """Args: names: of the stages, for messages. marks: of each stage.
    Raises:
        ValueError: for a name that no stage marks, or that is marked twice; for a mark that can not come out of what it is in; for the
            gradient of what has none.
    """
    found: dict[str, tuple[int, WatchMark]] = {}
    for stage, own in enumerate(marks):
        for mark in own:
            if mark.name not in watch.names:
                continue
            if mark.name in found:
                raise ValueError(_twice(mark.name, found[mark.name][0], stage, names))
            found[mark.name] = stage, mark
    for key, how in watch.entries:
        if isinstance(key, Parameter):
            continue
        name = key.name if isinstance(key, Gradient) else key
        if name not in found:
            known = [f"{key_text(mark.name)} ({_said(stage, names)})" for stage, own in enumerate(marks) for mark in own]
            there = f"marked are {shortened(', '.join(dict.fromkeys(known)), _MOST_NAMED)}" if known else "no stage marks anything"
            raise ValueError(f"watch has {key_text(key)}, but no stage has watched(x, {key_text(name)}): {there}")
        _require_possible(key, how, found[name][1], _said(found[name][0], names))


def _twice(name: str, first: int, second: int, names: Sequence[str]) -> str:
    if first == second:
        return (
            f"{_said(first, names)} marks two values as {key_text(name)}, which is watched: give each a name of its own; a function that "
            "is called several times may take it as an argument"
        )
    return (
        f"{_said(first, names)} and {_said(second, names)} both mark a value as {key_text(name)}, which is watched: give each a name of "
        "its own"
    )


def _require_possible(key: Key, how: How, mark: WatchMark, where: str) -> None:
    if mark.inside is not None:
        raise ValueError(
            f"watch has {key_text(key)}, but {where} marks it inside of {mark.inside}, which its values do not leave: return it from "
            "there, and mark what comes out"
        )
    kind = f"{mark.spec.dtype}[{','.join(map(str, mark.spec.shape))}]"
    if isinstance(key, Gradient) and not has_gradient(mark.spec):
        raise ValueError(
            f"watch has {key_text(key)}, but the value is {kind} (of {where}), and only real and complex numbers have a gradient"
        )
    if how == "sum" and mark.spec.dtype == bool:
        raise ValueError(
            f'watch has the "sum" of {key_text(key)}, but the value is {kind} (of {where}): mark it as numbers, such as x.astype(int)'
        )


def _said(stage: int, names: Sequence[str]) -> str:
    return f"stage {stage} ({names[stage]})"


def watch_of_stage(watch: WatchList, marks: Sequence[WatchMark], params: Sequence[WatchedValue]) -> StageWatch:
    """What of a stage is watched. Args: marks: those of the stage. params: its parameters that are."""
    by_name = {mark.name: mark.spec for mark in marks if mark.inside is None}
    values = [
        WatchedValue(key, how, key, -1, tuple(by_name[key].shape), by_name[key].dtype)
        for key, how in watch.entries
        if isinstance(key, str) and key in by_name
    ]
    gradients = [
        WatchedValue(key, how, key.name, -1, tuple(by_name[key.name].shape), by_name[key.name].dtype)
        for key, how in watch.entries
        if isinstance(key, Gradient) and key.name in by_name
    ]
    return StageWatch(values=tuple(values), gradients=tuple(gradients), params=tuple(params))


def watched_params(watch: WatchList, levels: Sequence[Sequence[int]], params: Sequence[Pytree]) -> list[list[WatchedValue]]:
    """For each stage its parameters that are watched.

    Args: params: of each stage.
    Raises: ValueError for a path that leads nowhere, or to more than one array, or a "sum" of bool.
    """
    found: list[list[WatchedValue]] = [[] for _ in params]
    for key, how in watch.entries:
        if isinstance(key, Parameter):
            stage = stage_of(key, levels)
            leaf, spec = _leaf(key, params[stage])
            if how == "sum" and spec.dtype == bool:
                raise ValueError(f'watch has the "sum" of {key_text(key)}, which is bool: watch the "last" or "all" of it')
            found[stage].append(WatchedValue(key, how, "", leaf, tuple(spec.shape), spec.dtype))
    return found


def require_stages(watch: WatchList, levels: Sequence[Sequence[Any]]) -> None:
    """Raises: ValueError for a parameter of a stage that is not there."""
    for key, _ in watch.entries:
        if isinstance(key, Parameter):
            stage_of(key, levels)


def stage_of(key: Parameter, levels: Sequence[Sequence[Any]]) -> int:
    """The number of a parameter's stage among all. Raises: ValueError if there is no such stage."""
    level, member = key.stage if isinstance(key.stage, tuple) else (key.stage, None)
    if level >= len(levels):
        raise ValueError(f"watch has {key_text(key)}, but the stages are 0 to {len(levels) - 1}")
    members = len(levels[level])
    if member is None and members > 1:
        first = repr(Parameter((level, 0), key.path))
        raise ValueError(f"watch has {key_text(key)}, but stage {level} is {members} concurrent ones: name one, such as {first}")
    if member is not None and member >= members:
        raise ValueError(f"watch has {key_text(key)}, but stage {level} has the members 0 to {members - 1}")
    return sum(map(len, levels[:level])) + (member or 0)


def _leaf(key: Parameter, params: Pytree) -> tuple[int, Spec]:
    """(index among the leaves, the array) of a parameter."""
    leaves = _jax.tree_util.tree_flatten_with_path(params)[0]
    paths = [tuple(getattr(step, "key", getattr(step, "idx", getattr(step, "name", None))) for step in steps) for steps, _ in leaves]
    below = [index for index, path in enumerate(paths) if path[: len(key.path)] == key.path]
    if len(below) == 1 and paths[below[0]] == key.path:
        return below[0], leaves[below[0]][1]
    among = [Parameter(key.stage, paths[index]) for index in below or range(len(paths))]
    there = shortened(", ".join(map(repr, among)), _MOST_NAMED) or "none"
    if below:
        raise ValueError(f"watch has {key_text(key)}, which is no single array: name one of {there}")
    raise ValueError(f"watch has {key_text(key)}, but the stage has no such parameter; its parameters are {there}")
