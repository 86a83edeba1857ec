"""One step of a loop as JAX traces it: calls the body, checks its result, and collects the values that it enqueues."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

import jax
from jax.extend.core import jaxpr_as_fun
from jax.typing import ArrayLike

from tilestep.messages import shortened
from tilestep.train.feeds.outfeed_queue import OutfeedQueue, collecting
from tilestep.train.offload import is_on_host
from tilestep.train.other_arguments import Body, Step, arguments_of, name_of
from tilestep.train.untyped import Pytree, Spec
from tilestep.train.untyped import jax as _jax

_MOST_QUOTED_CHARACTERS: Final = 200  # in a message


def step_of(body: Body, *, has_infeed: bool, outfeed: OutfeedQueue | None) -> Step:
    """The step that `body` describes. Args: has_infeed: whether it gets an element."""

    def step(carry: Pytree, element: Pytree) -> tuple[Pytree, Pytree]:
        args, kwargs = arguments_of(element) if has_infeed else ((), {})
        _require_call(body, carry, args, kwargs)
        if outfeed is None:
            return checked_carry(carry, body(carry, *args, **kwargs), body), None
        with collecting(outfeed) as collector:
            result = checked_carry(carry, body(carry, *args, **kwargs), body)
        return result, collector.values

    return step


def traced(step: Step, carry: Pytree, element: Pytree) -> tuple[Step, Pytree]:
    """Traces a step, so that the body runs once.

    Args: carry, element: tracers or arrays with the loop's shapes and dtypes.
    Returns: (a step that runs what was traced, the specs of its values for the outfeed).
    """
    closed, (_, values) = _jax.make_jaxpr(step, return_shape=True)(carry, element)
    structure = _jax.tree.structure((carry, values))
    run = jaxpr_as_fun(closed)

    def run_traced(carry: Pytree, element: Pytree) -> tuple[Pytree, Pytree]:
        return _jax.tree.unflatten(structure, run(*_jax.tree.leaves((carry, element))))

    return run_traced, values


def truth(condition: Callable[[Pytree], ArrayLike], carry: Pytree) -> jax.Array:
    """The condition's answer, bool[]. Raises: TypeError if it is no scalar of dtype bool, or the condition takes other arguments."""
    _require_call(condition, carry, (), {}, what="condition")
    answer = condition(carry)
    leaves = _jax.tree.leaves(answer)
    if len(leaves) != 1 or leaves[0] is not answer or (spec := _jax.eval_shape(_jax.numpy.asarray, answer)).shape or spec.dtype != bool:
        raise TypeError(f"condition {name_of(condition)} must return one scalar of dtype bool, but returned {_described(answer)}")
    return _jax.numpy.asarray(answer)


def _require_call(function: Body, carry: Pytree, args: tuple[Pytree, ...], kwargs: Mapping[str, Pytree], *, what: str = "body") -> None:
    """Raises: TypeError if `function` does not take these arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in function: the call itself raises
        return
    try:
        signature.bind(carry, *args, **kwargs)
    except TypeError as error:
        arguments = "the carry"
        if args:
            arguments += f" and the infeed element's {len(args)} items" if len(args) > 1 else " and the infeed's element"
        if kwargs:
            arguments += f" and the infeed element's items {shortened(', '.join(kwargs), _MOST_QUOTED_CHARACTERS)} as keywords"
        if what == "condition":
            arguments += " alone (never an infeed's element)"
        parameters = shortened(signature, _MOST_QUOTED_CHARACTERS)
        raise TypeError(f"{what} {name_of(function)}{parameters} is called with {arguments}: {error}") from None


def checked_carry(carry: Pytree, result: Pytree, body: Body) -> Pytree:
    """The body's result as the carry of the next step.

    Raises: TypeError if its structure, a shape, a dtype or a memory differs from the carry's.
    """
    before, structure = _jax.tree_util.tree_flatten_with_path(carry)
    returned, new_structure = _jax.tree_util.tree_flatten_with_path(result)
    if new_structure != structure:
        if type(result) is tuple and len(result) == 2 and _jax.tree.structure(result[0]) == structure:
            raise TypeError(
                f"body {name_of(body)} returns (carry, value), as that of lax.scan: it must return the carry alone; an OutfeedQueue brings "
                "values out, by outfeed.enqueue(value) in the body"
            )
        raise TypeError(
            f"body {name_of(body)} must return a new carry like the one it was given: {_difference(before, returned)}\n"
            f"  expected {shortened(structure, _MOST_QUOTED_CHARACTERS)}\n  found    {shortened(new_structure, _MOST_QUOTED_CHARACTERS)}"
        )
    leaves = [_checked_leaf(path, old, new, body) for (path, old), (_, new) in zip(before, returned, strict=True)]
    return _jax.tree.unflatten(structure, leaves)


def _checked_leaf(path: tuple[Any, ...], old: jax.Array, new: object, body: Body) -> jax.Array:
    where = f"carry{_jax.tree_util.keystr(path)}"
    try:
        array = _jax.numpy.asarray(new)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{where}: body {name_of(body)} returned a {type(new).__name__}, no array or number: {error}") from error
    if (array.shape, array.dtype) != (old.shape, old.dtype):
        raise TypeError(
            f"{where}: the loop's body, {name_of(body)}, must keep shape and dtype: expected {_spec(old)}, found {_spec(array)}; give the "
            f"loop a carry of the latter shape and dtype, or convert in the body (.astype, .reshape)"
        )
    if is_on_host(array) != is_on_host(old):
        old_memory, new_memory = ("the host's", "the device's") if is_on_host(old) else ("the device's", "the host's")
        raise TypeError(
            f"{where}: the loop's body, {name_of(body)}, must keep it in {old_memory} memory: found in {new_memory}; "
            "tilestep.train.placed_like(new, old) moves it"
        )
    return _jax.lax.convert_element_type(array, array.dtype) if getattr(array, "weak_type", False) else array


def _difference(old: list[tuple[Any, Any]], new: list[tuple[Any, Any]]) -> str:
    keystr = _jax.tree_util.keystr
    before, after = ({keystr(path): None for path, _ in side} for side in (old, new))
    missing = [path for path in before if path not in after]
    extra = [path for path in after if path not in before]
    parts = [f"{what} carry{paths[0]}" + f" and {len(paths) - 1} more" * (len(paths) > 1) for what, paths in _both(missing, extra) if paths]
    return "; ".join(parts) or "its containers are of other types"


def _both(missing: list[str], extra: list[str]) -> tuple[tuple[str, list[str]], tuple[str, list[str]]]:
    return ("it lacks", missing), ("it has a new", extra)


def _spec(array: Spec) -> str:
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def _described(value: Pytree) -> str:
    specs = _jax.tree.map(lambda leaf: _spec(leaf) if hasattr(leaf, "dtype") else type(leaf).__name__, value)
    return shortened(specs, _MOST_QUOTED_CHARACTERS)
