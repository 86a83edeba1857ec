"""If, Loop and Scan. What is known when the program is made decides at once; the rest becomes `lax.cond`, `lax.scan` and `lax.while_loop`.

Eagerly, turns run one by one. In a program, a Loop of a known number of turns is unrolled up to `_MOST_UNROLLED`, and a scan beyond.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.errors import DynamicShapeError, NodeError, OnnxError
from tilestep.onnx.interpreter.graph import Graph
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import NeedsValueError, is_known, is_traced, known_ints, known_scalar, module_of
from tilestep.onnx.ops.control_flow.loop_iterations import (
    Body,
    ConditionError,
    TooManyTurnsError,
    UnsteadyError,
    arrays,
    bounded,
    cast_like,
    flag,
    form,
    in_turn,
    most_turns,
    scanned,
    while_going,
)


@op("Gradient", domain="ai.onnx.preview.training")
def gradient(call: Call, *values: Any, xs: Sequence[str], y: str, graph: Graph, zs: Sequence[str] = ()) -> Any:
    """The gradient of the sum of `y` with respect to each of `xs`, at the values that the node gets for `xs` and `zs`.

    Args: graph: what leads from `xs` and `zs` to `y`.
    """
    if len(values) != len(xs) + len(zs):
        raise ValueError(f"it gets {len(values)} values for {len(xs) + len(zs)} names in xs and zs")

    def total(some: Sequence[Any]) -> Any:
        (result,) = call.subgraph(graph, [*some, *values[len(xs) :]], once=True)
        return jnp.sum(result)

    return tuple(jax.grad(total)([jnp.asarray(value) for value in values[: len(xs)]]))


_MOST_UNROLLED: Final = 16  # turns of a Loop that become one program after the other
_MOST_UNSTEADY: Final = 256  # turns that may be unrolled where they can't be a scan, such as those that change shapes
_MOST_EAGER: Final = 1 << 16  # turns that run one by one, so that a loop without end is an error
_MOST_TURNS: Final = (1 << 31) - 1


@op("If")
def if_(call: Call, condition: Any, *, then_branch: Graph, else_branch: Graph) -> tuple[Any, ...]:
    """The results of one of two graphs. A condition that is known leaves nothing of the other one; else both give the same shapes."""
    if not is_traced(condition):
        return tuple(call.subgraph(then_branch if known_scalar(condition, "the condition") else else_branch, once=True))
    seen: list[list[Any]] = []

    def branch(graph: Graph) -> Callable[[], Any]:
        def run() -> Any:
            try:
                return in_both(call.subgraph(graph))
            except NodeError as error:  # another condition may leave out this branch
                raise NeedsValueError(f"the condition (for a branch that can't be: {error})", condition) from error
            except OnnxError:
                raise
            except ValueError as error:
                raise NeedsValueError(f"the condition ({error})", condition) from error

        return run

    def in_both(results: list[Any]) -> Any:
        made = arrays(results)
        if seen:
            first = arrays(seen[0])
            if form(first) != form(made):
                raise NeedsValueError(f"the condition (its branches give {_shapes(first)} and {_shapes(made)})", condition)
            made = cast_like(made, first)
        seen.append(results)
        return made

    results = lax.cond(flag(condition), branch(then_branch), branch(else_branch))
    return tuple(one if _are_same(one, other) else result for result, one, other in zip(results, *_both(seen), strict=True))


def _both(seen: list[list[Any]]) -> tuple[list[Any], list[Any]]:
    """The results of the two branches; of one, if JAX has run only one."""
    return seen[0], seen[-1]


def _are_same(one: Any, other: Any) -> bool:
    """Whether both branches give the same known array, which then stays known, such as a shape."""
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return False
    return one.dtype == other.dtype and one.shape == other.shape and bool(np.all(one == other))


def _shapes(value: Any) -> str:
    return ", ".join(str(list(leaf.shape)) for leaf in jax.tree.leaves(value)) or "nothing"


@op("Loop")
def loop(call: Call, trips: Any = None, condition: Any = None, *state: Any, body: Graph) -> tuple[Any, ...]:
    """Runs a graph up to `trips` times, as long as the condition holds that it returns; without `condition` that one has no effect.

    It gives what the last turn carries on, then the rows of all turns. If a program can't know the number of turns, then a bound
    on the node makes it a scan of as many turns, with zeros for rows that are missing; else it is a while loop, and has no rows.
    """
    carried = len(body.inputs) - 2
    if len(state) > carried:
        raise ValueError(f"its body takes {carried} values beside the turn and the condition, and it has {len(state)}")
    if trips is None and condition is None:
        raise ValueError("it has neither a trip count nor a condition, and never ends")
    values = [*state, *[None] * (carried - len(state))]
    turns = Body(call=call, graph=body, carried=carried, counts=True, heeds=condition is not None)
    if is_traced(trips) or is_traced(condition):
        return _turns_by_values(turns, trips, condition, values)
    most = None if trips is None else max(0, int(known_scalar(trips, "the trip count")))
    if condition is not None and not known_scalar(condition, "the condition"):
        most = 0
    try:
        return tuple(_known_turns(turns, values, most))
    except ConditionError:
        return _turns_by_values(turns, trips, condition, values)


def _known_turns(turns: Body, state: Sequence[Any], most: int | None) -> list[Any]:
    """A Loop whose first condition and trip count, if it has one, are known. Raises: ConditionError if another condition isn't."""
    if not turns.is_traced(*state):
        return _one_by_one(turns, state, most, cap=_MOST_EAGER)
    if most != 0 and turns.ends_by_values(state):
        raise ConditionError
    if most is None or most <= _MOST_UNROLLED:
        return _one_by_one(turns, state, most, cap=_MOST_UNSTEADY)
    return _scan_or_unroll(turns, state, most)


def _one_by_one(turns: Body, state: Sequence[Any], most: int | None, elements: Sequence[Any] = (), *, cap: int) -> list[Any]:
    try:
        return in_turn(turns, state, most, elements, cap=cap)
    except TooManyTurnsError:
        way = "let jax.jit compile the model" if cap == _MOST_EAGER else "give it a trip count"
        raise ValueError(f"it has run {cap:,} turns one by one, which is the most: {way}") from None


def _scan_or_unroll(turns: Body, state: Sequence[Any], most: int, columns: Sequence[Any] = ()) -> list[Any]:
    """A known number of turns, traced: a scan, or if that can't be, one after the other."""
    try:
        results = scanned(turns, state, min(most, _MOST_TURNS), columns)
    except (UnsteadyError, DynamicShapeError) as error:
        if most > _MOST_UNSTEADY:
            if isinstance(error, DynamicShapeError):
                raise
            raise ValueError(f"{error}, and it has {most:,} turns: at most {_MOST_UNSTEADY} of this kind are possible") from None
        return in_turn(turns, state, most, _elements(columns, most), cap=_MOST_UNSTEADY)
    if most > _MOST_TURNS:
        raise ValueError(f"it has {most:,} turns, and a program has at most {_MOST_TURNS:,}")
    return results


def _elements(columns: Sequence[Any], length: int) -> list[tuple[Any, ...]]:
    """What a Scan gets in each turn."""
    return [tuple(column[turn] for column in columns) for turn in range(length)] if columns else []


def _turns_by_values(turns: Body, trips: Any, condition: Any, state: Sequence[Any]) -> tuple[Any, ...]:
    """A Loop whose number of turns is known only when the program runs."""
    call = turns.call
    most = most_turns(trips)
    going = (most > 0) & flag(True if condition is None else condition)
    bound = call.bound()
    short = None if trips is None or not is_known(trips) else int(trips.reshape(()))
    wants_rows = any(call.wants(turns.carried + row) for row in range(turns.num_rows))
    try:
        if bound is not None:
            return tuple(bounded(turns, state, most, going, bound))
        if wants_rows:
            raise NeedsValueError("the number of its turns (each makes a row of its outputs)", or_bound=True)
        if short is not None and short <= _MOST_UNROLLED:
            return tuple(bounded(turns, state, most, going, short)[: turns.carried])
        return tuple(while_going(turns, state, most, going))
    except UnsteadyError as error:
        raise NeedsValueError(f"the number of its turns ({error})") from None
    except NodeError as error:  # there may be no turn
        decides = next((value for value in (trips, condition) if is_traced(value)), None)
        raise NeedsValueError(f"the number of its turns (for a body that can't be: {error})", decides) from error


@op("Scan", since=9)
def scan(
    call: Call,
    *inputs: Any,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> tuple[Any, ...]:
    """Runs a graph for each element along an axis of the last inputs. It gives what the last turn carries on, then the rows of all."""
    turns, state, scanned_inputs = _scan_parts(call, body, inputs, num_scan_inputs)
    columns = [_column(x, _of(scan_input_axes, i), _of(scan_input_directions, i)) for i, x in enumerate(scanned_inputs)]
    results = _scan(turns, state, columns, _one_length(columns))
    rows = results[turns.carried :]
    placed = [_row_axis(row, _of(scan_output_axes, i), _of(scan_output_directions, i)) for i, row in enumerate(rows)]
    return (*results[: turns.carried], *placed)


def _scan_parts(call: Call, body: Graph, inputs: Sequence[Any], num_scan_inputs: int) -> tuple[Body, Sequence[Any], Sequence[Any]]:
    if len(inputs) != len(body.inputs) or not 1 <= num_scan_inputs <= len(inputs):
        raise ValueError(f"it has {len(inputs)} inputs, {num_scan_inputs} of them to scan, and its body takes {len(body.inputs)}")
    carried = len(inputs) - num_scan_inputs
    return Body(call=call, graph=body, carried=carried, counts=False), inputs[:carried], inputs[carried:]


def _of(flags: Sequence[int], position: int) -> int:
    return flags[position] if position < len(flags) else 0


def _column(x: Any, axis: int, backwards: int) -> Any:
    """An input to scan, with the scanned axis first, in the order of the turns."""
    moved = module_of(x).moveaxis(x, axis, 0)
    return moved[::-1] if backwards else moved


def _row_axis(rows: Any, axis: int, backwards: int) -> Any:
    return module_of(rows).moveaxis(rows[::-1] if backwards else rows, 0, axis)


def _one_length(columns: Sequence[Any]) -> int:
    lengths = {column.shape[0] for column in columns}
    if len(lengths) != 1:
        raise ValueError(f"the scanned axes have {sorted(lengths)} elements, and need the same number")
    return lengths.pop()


def _scan(turns: Body, state: Sequence[Any], columns: Sequence[Any], length: int) -> list[Any]:
    if 0 < length <= _MOST_EAGER and not turns.is_traced(turns.length, *state, *columns):
        return _one_by_one(turns, state, length, _elements(columns, length), cap=_MOST_EAGER)
    return _scan_or_unroll(turns, state, length, columns)


@op("Scan", since=8)
def scan_8(
    call: Call, lengths: Any = None, *inputs: Any, body: Graph, num_scan_inputs: int, directions: Sequence[int] = ()
) -> tuple[Any, ...]:
    """Scan's first form: axis 0 of all inputs and outputs is a batch, and axis 1 is scanned, for each example up to its length if given.

    Rows beyond an example's length are zeros.
    """
    turns, _, scanned_inputs = _scan_parts(call, body, inputs, num_scan_inputs)
    batch, longest = scanned_inputs[0].shape[:2]
    if any(x.shape[0] != batch for x in inputs) or any(x.shape[1] != longest for x in scanned_inputs):
        raise ValueError("its inputs have different sizes of the batch, or its scanned ones different lengths")
    if not turns.is_traced(lengths, *inputs):
        stops = [longest] * batch if lengths is None else known_ints(lengths, "the lengths")
        examples = [_example(turns, [x[i] for x in inputs], directions, i, stop) for i, stop in enumerate(stops)]
        padded = [[_padded(value, longest) if i >= turns.carried else value for i, value in enumerate(values)] for values in examples]
        return tuple(module_of(*column).stack(column) for column in zip(*padded, strict=True))

    def example(number: Any, stop: Any, values: Sequence[Any]) -> list[Any]:
        return arrays(_example(replace(turns, length=None if lengths is None else stop), values, directions, number, None))

    stops = jnp.full(batch, longest) if lengths is None else arrays(lengths)
    return tuple(jax.vmap(example)(jnp.arange(batch), stops, [arrays(x) for x in inputs]))


def _example(turns: Body, values: Sequence[Any], directions: Sequence[int], number: Any, stop: int | None) -> list[Any]:
    """One example of a Scan-8. Args: stop: its length; None if the body has it, as a traced value."""
    state, sequences = values[: turns.carried], values[turns.carried :]
    columns = [_directed(x if stop is None else x[:stop], turns.length, _of(directions, i)) for i, x in enumerate(sequences)]
    return _scan(replace(turns, folds=(number,)), state, columns, len(columns[0]))


def _directed(x: Any, length: Any, backwards: int) -> Any:
    """A sequence in the order of the turns: backwards it begins with the last element of its length."""
    if not backwards:
        return x
    if length is None:
        return x[::-1]
    return jnp.take(x, jnp.maximum(length - 1 - jnp.arange(len(x)), 0), axis=0)


def _padded(rows: Any, length: int) -> Any:
    return module_of(rows).concatenate([rows, np.zeros((length - len(rows), *rows.shape[1:]), rows.dtype)])
