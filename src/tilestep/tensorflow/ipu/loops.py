"""`tensorflow.python.ipu.loops`: training loops on the device."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tilestep.tensorflow.compilation import node_name, require_compilation
from tilestep.tensorflow.ipu.ipu_infeed_queue import IPUInfeedQueue
from tilestep.tensorflow.loop import Loop
from tilestep.tensorflow.tracing import Scope, Traced, current_scope, trace
from tilestep.tensorflow.untyped import Structure, Tensor, tf
from tilestep.train.numbers import whole_number


def repeat(
    n: int,
    body: Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    infeed_queue: IPUInfeedQueue | None = None,
    use_while_v1: bool = True,
) -> Structure:
    """Runs `body` n times on the device, in one call of the host.

    Args:
        n: steps, 0 or more.
        body: a function of the carried tensors, then of the infeed's element. It returns new carried tensors, then nodes.
        inputs: the first carried tensors.
        infeed_queue: gives each step an element: a tuple's items are further arguments, a dict's are keyword arguments.
        use_while_v1: no effect.
    Returns:
        The last carried tensors: a list; the tensor if it is one; a node if there is none.
    Raises:
        TypeError: when `body` does not take its arguments, or returns other tensors than the carried ones.
        ValueError: when it returns a node before a tensor.
        UnsupportedError: outside of `ipu_compiler.compile`, and for what XLA cannot lower.
    """
    del use_while_v1
    steps = whole_number("n", n, least=0)
    carried = _tensors(inputs)
    if _is_part(infeed_queue):
        return _inner(None, body, carried, steps, infeed_queue)
    return _loop("loops.repeat", None, steps, body, carried, infeed_queue)


def while_loop(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    infeed_queue: IPUInfeedQueue | None = None,
    maximum_iterations: int | None = None,
    use_while_v1: bool = True,
) -> Structure:
    """Runs `body` on the device as long as `condition` of the carried tensors is true. Args, returns and raises: as `repeat`."""
    del use_while_v1
    most = None if maximum_iterations is None else whole_number("maximum_iterations", maximum_iterations, least=0)
    carried = _tensors(inputs)
    if _is_part(infeed_queue):
        return _inner(condition, body, carried, most, infeed_queue)
    return _loop("loops.while_loop", condition, most, body, carried, infeed_queue)


def _tensors(inputs: Any) -> list[Tensor]:
    given = [] if inputs is None else list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    return [tf.convert_to_tensor(each) for each in given]


def _loop(name: str, condition: Any, steps: int | None, body: Callable[..., Any], carried: list[Tensor], infeed: Any) -> Structure:
    compilation = require_compilation(name)
    elements, keywords = ([], {}) if infeed is None else infeed.arguments()
    _require_arguments(name, "body", body, [*carried, *elements], keywords)
    scope = Scope(compilation=compilation, is_body=True, accumulates=steps if condition is None else None)
    traced = trace(node_name(body), body, [*carried, *elements], keywords, scope=scope)
    _require_results(name, traced, carried)
    test = None
    if condition is not None:
        _require_arguments(name, "condition", condition, carried, {})
        test = trace(node_name(condition), condition, carried, scope=Scope(compilation=compilation, is_body=True))
    results = compilation.add(Loop(test, steps, traced, carried, infeed))
    return results[0] if len(results) == 1 else list(results) if results else tf.no_op(name=node_name(body))


def _require_arguments(name: str, which: str, function: Callable[..., Any], positional: Sequence[Any], keywords: Any) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # it says itself what it takes
        return
    try:
        signature.bind(*positional, **dict.fromkeys(keywords))
    except TypeError as error:
        more = f" and by name {', '.join(keywords)}" if keywords else ""
        raise TypeError(
            f"{name}: {which} {getattr(function, '__name__', which)}{signature} cannot take the {len(positional)} arguments of a "
            f"step{more} (carried tensors, then the infeed's): {error}"
        ) from None


def _require_results(name: str, traced: Traced, carried: Sequence[Tensor]) -> None:
    flat = tf.nest.flatten(traced.returned) if traced.returned is not None else []
    kinds = [isinstance(each, tf.Operation) for each in flat if each is not None]
    if kinds != sorted(kinds):
        raise ValueError(f"{name}: body {traced.name} returns a node before a tensor: carried tensors come first")
    got, wanted = ([(each.dtype.name, each.shape) for each in tensors] for tensors in (traced.results, carried))
    if [kind for kind, _ in got] != [kind for kind, _ in wanted]:
        raise TypeError(
            f"{name}: body {traced.name} returns {len(got)} tensors of {[kind for kind, _ in got]}, but the {len(wanted)} carried ones are "
            f"{[kind for kind, _ in wanted]}: return a new value of each"
        )
    if got != wanted:
        raise TypeError(
            f"{name}: body {traced.name} returns shapes {[s for _, s in got]}, but the carried ones are {[s for _, s in wanted]}"
        )


def _is_part(infeed: Any) -> bool:
    """Whether a loop is a part of the program around it: in a loop's body, or in a function of TensorFlow 2."""
    scope = current_scope()
    return scope is not None and scope.is_body and (infeed is None or scope.compilation is None)


def _inner(condition: Any, body: Callable[..., Any], carried: list[Tensor], steps: int | None, infeed: Any) -> Structure:
    """A loop that is a part of the program around it."""
    counted = [tf.constant(0), *carried]

    def test(index: Tensor, *values: Tensor) -> Tensor:
        goes_on = tf.constant(True) if condition is None else condition(*values)
        return goes_on if steps is None else tf.logical_and(goes_on, index < steps)

    def step(index: Tensor, *values: Tensor) -> list[Tensor]:
        elements, keywords = ([], {}) if infeed is None else infeed.next_arguments()
        flat = [each for each in tf.nest.flatten(body(*values, *elements, **keywords)) if each is not None]
        with tf.control_dependencies([each for each in flat if isinstance(each, tf.Operation)]):
            return [index + 1, *(tf.identity(each) for each in flat if not isinstance(each, tf.Operation))]

    results = tf.while_loop(test, step, counted)[1:]
    return results[0] if len(results) == 1 else list(results) if results else tf.no_op()
