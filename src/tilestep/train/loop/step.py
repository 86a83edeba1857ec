"""One step of a loop as JAX traces it: the body called with its arguments, its result checked, what it enqueues collected."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from jax.extend.core import jaxpr_as_fun

from tilestep.train.calling import Body, Step, arguments_of, name_of
from tilestep.train.feeds.outfeed_queue import OutfeedQueue, collecting
from tilestep.train.offload import is_on_host
from tilestep.train.untyped import jax as _jax


def step_of(body: Body, *, infed: bool, outfeed: OutfeedQueue | None) -> Step:
    """The step that `body` describes. Args: infed: whether it gets an element."""

    def step(carry: Any, element: Any) -> tuple[Any, Any]:
        args, kwargs = arguments_of(element) if infed else ((), {})
        _require_call(body, carry, args, kwargs)
        if outfeed is None:
            return same_kind(carry, body(carry, *args, **kwargs), body), None
        with collecting(outfeed) as collector:
            result = same_kind(carry, body(carry, *args, **kwargs), body)
        return result, collector.values

    return step


def traced(step: Step, carry: Any, element: Any) -> tuple[Step, Any]:
    """(the step as what JAX has traced, so that the body runs once; the shapes and dtypes of its values for the outfeed).

    Args: carry, element: tracers or arrays of the right kind.
    """
    closed, (_, values) = _jax.make_jaxpr(step, return_shape=True)(carry, element)
    structure = _jax.tree.structure((carry, values))
    run = jaxpr_as_fun(closed)

    def again(carry: Any, element: Any) -> tuple[Any, Any]:
        return _jax.tree.unflatten(structure, run(*_jax.tree.leaves((carry, element))))

    return again, values


def truth(condition: Callable[[Any], Any], carry: Any) -> Any:
    """What a condition says of a carry. Raises: TypeError if it is no scalar of dtype bool, or the condition takes other arguments."""
    _require_call(condition, carry, (), {}, what="condition")
    answer = condition(carry)
    leaves = _jax.tree.leaves(answer)
    if len(leaves) != 1 or leaves[0] is not answer or (kind := _jax.eval_shape(_jax.numpy.asarray, answer)).shape or kind.dtype != bool:
        raise TypeError(f"condition {name_of(condition)} must return one scalar of dtype bool, but returned {_described(answer)}")
    return answer


def _require_call(function: Body, carry: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, what: str = "body") -> None:
    """Raises: TypeError if `function` does not take these arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a built-in function: the call itself tells
        return
    try:
        signature.bind(carry, *args, **kwargs)
    except TypeError as error:
        given = "the carry"
        if args:
            given += f" and the infeed element's {len(args)} items" if len(args) > 1 else " and the infeed's element"
        if kwargs:
            given += f" and the infeed element's items {', '.join(kwargs)} as keywords"
        if what == "condition":
            given += " alone (never an infeed's element)"
        raise TypeError(f"{what} {name_of(function)}{signature} is called with {given}: {error}") from None


def same_kind(carry: Any, result: Any, body: Body) -> Any:
    """What the body returned, as the carry of the next step.

    Raises: TypeError if its structure, a shape or a dtype is another than that of the carry that it was given.
    """
    given, structure = _jax.tree_util.tree_flatten_with_path(carry)
    returned, found = _jax.tree_util.tree_flatten_with_path(result)
    if found != structure:
        raise TypeError(
            f"body {name_of(body)} must return a new carry like the one it was given: {_difference(given, returned)}\n"
            f"  expected {structure}\n  found    {found}"
        )
    leaves = [_same_leaf(path, old, new, body) for (path, old), (_, new) in zip(given, returned, strict=True)]
    return _jax.tree.unflatten(structure, leaves)


def _same_leaf(path: Any, old: Any, new: Any, body: Body) -> Any:
    where = f"carry{_jax.tree_util.keystr(path)}"
    try:
        array = _jax.numpy.asarray(new)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{where}: body {name_of(body)} returned a {type(new).__name__}, no array or number: {error}") from error
    if (array.shape, array.dtype) != (old.shape, old.dtype):
        raise TypeError(
            f"{where}: body {name_of(body)} must keep shape and dtype: expected {_kind(old)}, found {_kind(array)}; give the loop a carry "
            f"of the latter kind, or convert in the body (.astype, .reshape)"
        )
    if is_on_host(array) != is_on_host(old):
        kept, found = ("the host's", "the device's") if is_on_host(old) else ("the device's", "the host's")
        raise TypeError(
            f"{where}: body {name_of(body)} must keep it in {kept} memory: found in {found}; tilestep.train.placed_like(new, old) moves it"
        )
    return _jax.lax.convert_element_type(array, array.dtype) if getattr(array, "weak_type", False) else array


def _difference(given: list[Any], returned: list[Any]) -> str:
    keystr = _jax.tree_util.keystr
    before, after = ({keystr(path): None for path, _ in side} for side in (given, returned))
    missing = [path for path in before if path not in after]
    extra = [path for path in after if path not in before]
    parts = [f"{what} carry{paths[0]}" + f" and {len(paths) - 1} more" * (len(paths) > 1) for what, paths in _both(missing, extra) if paths]
    return "; ".join(parts) or "its containers are of other types"


def _both(missing: list[str], extra: list[str]) -> tuple[tuple[str, list[str]], tuple[str, list[str]]]:
    return ("it lacks", missing), ("it has a new", extra)


def _kind(array: Any) -> str:
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def _described(value: Any) -> str:
    return str(_jax.tree.map(lambda leaf: _kind(leaf) if hasattr(leaf, "dtype") else type(leaf).__name__, value))
