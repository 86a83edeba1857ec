"""The turns of a loop: one after the other, as `lax.scan`, or as `lax.while_loop`.

A body is a graph that Loop or Scan runs again and again. What it carries from turn to turn are values: arrays, sequences, or None.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.convert import fitting
from tilestep.onnx.interpreter.demand import draws
from tilestep.onnx.interpreter.graph import Graph
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.values import is_known, is_traced, jax_dtype

_MOST_HELD: Final = 64  # elements of a known array that the body may return as it is, such as a shape
_T = TypeVar("_T")


class UnsteadyError(Exception):
    """What a body carries doesn't keep its form, or its condition is not known, so that the turns can't be one `lax.scan`."""


class ConditionError(Exception):
    """Whether there is another turn is known only when the program runs."""


class TooManyTurnsError(Exception):
    """A loop runs more turns one by one than are allowed."""


class _MovesError(Exception):
    """Known values that were taken for constant are not. Attributes: positions: among what is carried."""

    def __init__(self, positions: Sequence[int]) -> None:
        super().__init__()
        self.positions = tuple(positions)


@dataclass(frozen=True, kw_only=True)
class Body:
    """A graph that is run again and again.

    Attributes:
        carried: how many values it hands to its next turn.
        counts: whether it gets the turn's number and a condition, and returns a condition: Loop's does, Scan's doesn't.
        heeds: whether a condition that it returns ends the loop.
        folds: more numbers for random keys.
        length: turns after which a traced one has no effect, and makes rows of zeros; None if all have an effect.
    """

    call: Call
    graph: Graph
    carried: int
    counts: bool
    heeds: bool = False
    folds: tuple[Any, ...] = ()
    length: Any = None

    def turn(self, number: Any, state: Sequence[Any], elements: Sequence[Any] = ()) -> tuple[Any, list[Any], list[Any]]:
        """One turn. Returns: whether there is another one; what it carries on; what it appends to the outputs."""
        inputs = [number, np.array(True), *state] if self.counts else [*state, *elements]
        outputs = self.call.subgraph(self.graph, inputs, fold_in=(*self.folds, number))
        first = int(self.counts)
        condition = outputs[0] if self.heeds else np.array(True)
        new, rows = outputs[first : first + self.carried], outputs[first + self.carried :]
        if self.length is not None:
            new = jax.tree.map(lambda leaf, old: jnp.where(number < self.length, leaf, old), new, list(state))
            rows = jax.tree.map(lambda leaf: jnp.where(number < self.length, leaf, jnp.zeros_like(leaf)), rows)
        return condition, new, rows

    @property
    def num_rows(self) -> int:
        """How many outputs it appends to."""
        return len(self.graph.outputs) - self.carried - int(self.counts)

    def is_traced(self, *values: Any) -> bool:
        """Whether any of `values`, or a value that the body reads around it, is known only when the program runs."""
        scope = self.call.scope
        around = [scope[name] for name in self.graph.outer if name in scope]
        if draws(self.graph):
            around.append(self.call.run.key)
        return any(is_traced(leaf) for leaf in jax.tree.leaves((values, around)))

    def ends_by_values(self, state: Sequence[Any]) -> bool:
        """Whether the condition after the first turn is known only when the program runs. It is traced for nothing else."""
        if not self.heeds:
            return False
        found: list[bool] = []
        jax.eval_shape(lambda: found.append(is_traced(self.turn(np.asarray(0, np.int64), state)[0])))
        return found[0]


def arrays(value: Any) -> Any:
    """A value with JAX's arrays for all known ones, as `lax` wants it.

    Raises: OverflowError for integers beyond JAX's, ValueError for text.
    """

    def array(leaf: Any) -> Any:
        if leaf.dtype.kind in "OUS":
            raise ValueError("text can't be carried through a branch or a loop that the program runs")
        return jnp.asarray(fitting(leaf), jax_dtype(leaf.dtype))  # the dtype makes weak types strong

    return jax.tree.map(array, value)


def form(value: Any) -> tuple[Any, list[tuple[int, ...]]]:
    """The structure of a value and the shapes of its arrays: what has to stay the same in a loop, and in both branches."""
    leaves, structure = jax.tree.flatten(value)
    return structure, [np.shape(leaf) for leaf in leaves]


def cast_like(value: Any, other: Any) -> Any:
    """Arrays of a value in the types of those of `other`, where both are integers or both floats. Raises: ValueError where they aren't."""

    def cast(leaf: Any, like: Any) -> Any:
        if leaf.dtype != like.dtype and np.dtype(leaf.dtype).kind != np.dtype(like.dtype).kind:
            raise ValueError(f"a value changes its type from {like.dtype} to {leaf.dtype}")
        return leaf.astype(like.dtype)

    return jax.tree.map(cast, value, other)


def in_turn(body: Body, state: Sequence[Any], most: int | None, elements: Sequence[Sequence[Any]] = (), *, cap: int) -> list[Any]:
    """Runs the turns one after the other while the condition holds. Returns: what is carried, then the outputs' rows.

    Args: most: turns; None for as many as the condition wants. elements: of each turn of a Scan. cap: turns that are allowed.
    Raises: ConditionError if the condition is not known, TooManyTurnsError.
    """
    collected: list[list[Any]] = []
    current = list(state)
    while most is None or len(collected) < most:
        number = len(collected)
        if number >= cap:
            raise TooManyTurnsError
        condition, current, rows = body.turn(np.asarray(number, np.int64), current, elements[number] if elements else ())
        collected.append(rows)
        if is_traced(condition):
            raise ConditionError
        if not np.asarray(condition).reshape(()):
            break
    if not collected:
        return [*current, *_no_rows(body, state)]
    return [*current, *(stacked(column) for column in zip(*collected, strict=True))]


def stacked(column: Sequence[Any]) -> Any:
    """The rows of one output as one array, known if all of them are. Raises: ValueError if their shapes differ."""
    shapes = {np.shape(row) for row in column}
    if len(shapes) > 1:
        raise ValueError(f"the body's rows have the shapes {sorted(map(list, shapes))}, and need one shape")
    return (np if is_known(tuple(column)) else jnp).stack(column)


def _no_rows(body: Body, state: Sequence[Any]) -> list[Any]:
    """The outputs of a loop of no turns: their shapes are those of a turn that is not run."""
    if not body.num_rows:
        return []
    found: list[Any] = []

    def probe() -> None:
        found.extend((np.shape(row), row.dtype) for row in body.turn(np.asarray(0, np.int64), state)[2])

    jax.eval_shape(probe)
    return [np.zeros((0, *shape), dtype) for shape, dtype in found]


def scanned(body: Body, state: Sequence[Any], length: int, columns: Sequence[Any] = ()) -> list[Any]:
    """The turns as one `lax.scan`. Returns: what is carried, then the outputs' rows.

    Args: columns: arrays that are scanned along their first axis.
    Raises: UnsteadyError if that can't be, ConditionError if the condition depends on values.
    """

    def attempt(held: dict[int, Any]) -> list[Any]:
        def step(carry: tuple[Any, list[Any]], elements: Sequence[Any]) -> tuple[Any, Any]:
            number, moving = carry
            condition, new, rows = body.turn(number, _merged(held, moving, body.carried), elements)
            if is_traced(condition):
                raise ConditionError
            if not np.asarray(condition).reshape(()):
                raise UnsteadyError("it ends after one turn")
            return (number + 1, _moving(held, moving, new)), arrays(rows)

        moving = [arrays(value) for i, value in enumerate(state) if i not in held]
        (_, final), rows = lax.scan(step, (_zero(), moving), [*columns], length=length)
        return [*_merged(held, final, body.carried), *rows]

    return _with_held(state, attempt)


def bounded(body: Body, state: Sequence[Any], most: Any, going: Any, length: int) -> list[Any]:
    """At most `length` turns as one `lax.scan`, which has a gradient. Rows of turns that don't happen are zeros.

    If there would be more turns than `length`, then all results are as `spoiled` says.

    Args: most: turns, if the condition holds as long. going: whether there is a first turn.
    """

    def attempt(held: dict[int, Any]) -> list[Any]:
        def step(carry: tuple[Any, Any, list[Any]], _: None) -> tuple[Any, Any]:
            number, going, moving = carry
            shapes: list[Any] = []

            def run() -> tuple[Any, Any, Any]:
                condition, new, rows = body.turn(number, _merged(held, moving, body.carried))
                made = arrays(rows)
                shapes.extend(jax.ShapeDtypeStruct(row.shape, row.dtype) for row in made)
                return flag(condition) & (number + 1 < most), _moving(held, moving, new), made

            def skip() -> tuple[Any, Any, Any]:
                if len(shapes) < body.num_rows:  # JAX has not traced the other branch yet
                    jax.eval_shape(run)
                return jnp.zeros((), bool), moving, [jnp.zeros(row.shape, row.dtype) for row in shapes[: body.num_rows]]

            going, new, rows = lax.cond(going, run, skip)
            return (number + 1, going, new), rows

        moving = [arrays(value) for i, value in enumerate(state) if i not in held]
        (_, more, final), rows = lax.scan(step, (_zero(), going, moving), None, length=length)
        return [*_merged(held, spoiled(final, more), body.carried), *spoiled(rows, more)]

    return _with_held(state, attempt)


def while_going(body: Body, state: Sequence[Any], most: Any, going: Any) -> list[Any]:
    """The turns as one `lax.while_loop`, which has no gradient backwards. Args: as those of `bounded`. Returns: what is carried."""

    def attempt(held: dict[int, Any]) -> list[Any]:
        def step(carry: tuple[Any, Any, list[Any]]) -> tuple[Any, Any, list[Any]]:
            number, _, moving = carry
            condition, new, _ = body.turn(number, _merged(held, moving, body.carried))
            return number + 1, flag(condition) & (number + 1 < most), _moving(held, moving, new)

        moving = [arrays(value) for i, value in enumerate(state) if i not in held]
        final = lax.while_loop(lambda carry: carry[1], step, (_zero(), going, moving))
        return _merged(held, final[2], body.carried)

    return _with_held(state, attempt)


def most_turns(trips: Any) -> Any:
    """A trip count as an integer of the type that turns are counted in; without one, as many as that type has."""
    largest = np.iinfo(jax_dtype(np.int64)).max
    if trips is None:
        return jnp.asarray(largest)
    return jnp.asarray(min(int(np.asarray(trips).reshape(())), largest), jax_dtype(np.int64)) if is_known(trips) else jnp.reshape(trips, ())


def _zero() -> Any:
    return jnp.zeros((), jax_dtype(np.int64))


def flag(condition: Any) -> Any:
    """A condition of one element as a traced truth value."""
    return jnp.reshape(jnp.asarray(condition), ()).astype(bool)


def _with_held(state: Sequence[Any], attempt: Callable[[dict[int, Any]], _T]) -> _T:
    """Tries with small known integers held constant, since a shape must stay known; those that change are carried in the next try."""
    held = {i: value for i, value in enumerate(state) if value is None or _may_be_held(value)}
    while True:
        try:
            return attempt(held)
        except _MovesError as error:
            for position in error.positions:
                del held[position]


def _may_be_held(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and (
        value.dtype.kind in "OUS" or (value.dtype.kind in "biu" and value.size <= _MOST_HELD)
    )


def _merged(held: dict[int, Any], moving: Sequence[Any], count: int) -> list[Any]:
    rest = iter(moving)
    return [held[i] if i in held else next(rest) for i in range(count)]


def _moving(held: dict[int, Any], moving: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """What a turn carries on, as the next turn wants it. Raises: _MovesError, UnsteadyError if a form has changed."""
    moved = [i for i, value in held.items() if not _is_same(value, new[i])]
    if moved:
        raise _MovesError(moved)
    made = [arrays(value) for i, value in enumerate(new) if i not in held]
    for old, value in zip(moving, made, strict=True):
        if form(old) != form(value):
            raise UnsteadyError(f"what it carries changes from {_shown(old)} to {_shown(value)}")
    return cast_like(made, list(moving))


def _is_same(old: Any, new: Any) -> bool:
    if old is None or new is None:
        return old is new
    return is_known(new) and not isinstance(new, tuple) and old.shape == new.shape and bool(np.all(old == new))


def _shown(value: Any) -> str:
    leaves = jax.tree.leaves(value)
    shapes = ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves)
    return shapes if len(leaves) == 1 else f"({shapes})"


def spoiled(value: Any, over: Any) -> Any:
    """A value that says so if a bound was too small, since a program can't raise: all of it is NaN, the lowest integer, or true."""

    def spoil(leaf: Any) -> Any:
        if jnp.issubdtype(leaf.dtype, jnp.bool_):
            return leaf | over
        lowest = jnp.nan if jnp.issubdtype(leaf.dtype, jnp.inexact) else jnp.iinfo(leaf.dtype).min
        return jnp.where(over, jnp.asarray(lowest, leaf.dtype), leaf)

    return jax.tree.map(spoil, value)
