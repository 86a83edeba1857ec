"""Loops whose steps are tiny: compiled in one piece where that is safe, with the values of the ordinary program."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tilestep.errors import SettingsError
from tilestep.train import InfeedQueue, OutfeedQueue, repeat
from tilestep.train.loop import tiny_steps
from tilestep.train.loop.tiny_steps import LoopProgram, scan

_jax: Any = jax
_jnp: Any = jnp
lax: Any = jax.lax

Step = Callable[[Any, Any], tuple[Any, Any]]

STEPS = 5


def same(
    step: Step,
    carry: Any,
    elements: Any = None,
    *,
    quick: bool = True,
    length: int = STEPS,
    atol: float = 1e-6,
    like: Step | None = None,
) -> LoopProgram:
    """Holds the program of a loop against `jax.lax.scan`.

    Args: quick: whether its steps have to be compiled in one piece. like: the step for scan; None: the same.
    """
    program = LoopProgram(lambda carry, elements: scan(step, carry, elements, length=length), shardings=None)
    expected = _jax.jit(lambda carry, elements: lax.scan(like or step, carry, elements, length=length))(carry, elements)
    for _ in range(2):  # chosen, and called again
        found = program(_jax.tree.map(_jnp.array, carry), elements)
        assert _jax.tree.structure(found) == _jax.tree.structure(expected)
        for ours, theirs in zip(_jax.tree.leaves(found), _jax.tree.leaves(expected), strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-5, atol=atol)
        assert program.is_quick == quick
    return program


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.uniform(0.1, 0.9, shape) if dtype.startswith("f") else rng.integers(0, 7, shape)).astype(dtype)


def perceptron(weights: Any, element: Any) -> Any:
    x, labels = element

    def loss(weights: Any) -> Any:
        scores = _jax.nn.relu(x @ weights["in"] + weights["bias"]) @ weights["out"]
        return -_jnp.take_along_axis(_jax.nn.log_softmax(scores), labels[:, None], axis=1).mean()

    value, gradients = _jax.value_and_grad(loss)(weights)
    return _jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value


def test_a_perceptron_s_step_is_one_piece() -> None:
    weights = {"in": numbers(16, 16), "bias": np.zeros(16, np.float32), "out": numbers(16, 4)}
    elements = numbers(STEPS, 8, 16), numbers(STEPS, 8, dtype="int32") % 4
    same(perceptron, weights, elements, atol=2e-5)  # scores of about 30: either program is up to 1.2e-5 from what 64-bit types give


def test_repeat_compiles_tiny_steps_so_and_others_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilestep.train.loop import program_cache

    made: list[LoopProgram] = []

    def noted(*args: Any, **settings: Any) -> LoopProgram:
        made.append(LoopProgram(*args, **settings))
        return made[-1]

    monkeypatch.setattr(program_cache, "LoopProgram", noted)

    def body(weights: Any, x: Any, labels: Any) -> Any:
        return perceptron(weights, (x, labels))[0]

    def run(width: int) -> list[bool]:
        weights = {"in": numbers(16, width), "bias": np.zeros(width, np.float32), "out": numbers(width, 4)}
        repeat(4, body, weights, InfeedQueue(itertools.repeat((numbers(8, 16), numbers(8, dtype="int32") % 4))))
        return [program.is_quick for program in made]

    assert run(16) == [True]
    assert run(512) == [False]  # the same loop, now with other arrays


def test_a_loop_with_convolutions_has_the_same_values() -> None:
    def step(kernel: Any, x: Any) -> tuple[Any, Any]:
        value, gradient = _jax.value_and_grad(lambda kernel: (lax.conv(x, kernel, (1, 1), "SAME") ** 2).sum())(kernel)
        return kernel - 1e-5 * gradient, value

    found = same(step, numbers(4, 3, 3, 3), numbers(STEPS, 2, 3, 8, 8), quick=False)
    assert found.has_quick_convolutions


def test_what_is_enqueued_comes_out() -> None:
    outfeed = OutfeedQueue()

    def body(total: Any, x: Any) -> Any:
        outfeed.enqueue({"total": total, "x": x @ x})
        return total + x.sum()

    elements = numbers(7, 4, 4)
    repeat(7, body, np.float32(0), InfeedQueue(elements), outfeed)
    found = outfeed.dequeue(wait=True)
    np.testing.assert_allclose(found["x"], elements @ elements, rtol=1e-6)
    np.testing.assert_allclose(found["total"], np.concatenate([[0], np.cumsum(elements.sum((1, 2)))[:-1]]), rtol=1e-5)


A, B, XS = numbers(3, 4), numbers(3, 4, seed=1), numbers(STEPS, 3, 4)
WHOLE = numbers(3, 4, dtype="int32")
UNARY = """
    abs cbrt ceil cos cosh erf exp exp2 expm1 floor is_finite log log1p logistic neg round rsqrt sign sin sinh sqrt square
    tan tanh
"""
BINARY = """
    add atan2 div eq ge gt le lt max min mul ne nextafter pow rem sub
"""
INTEGERS = """
    add bitwise_and bitwise_or bitwise_xor max min mul rem shift_left shift_right_arithmetic shift_right_logical sub
"""


def mixed(value: Any, like: Any) -> Any:
    """A value in a carry's shape and dtype, and within bounds."""
    numbers = _jnp.asarray(value).astype("float32").reshape(-1)
    rows = _jnp.concatenate([numbers] * (-(-like.size // numbers.size)))[: like.size].reshape(like.shape)
    return (0.5 * like + 0.4 * _jnp.tanh(rows)).astype(like.dtype) if like.dtype == _jnp.float32 else (like + rows.astype(like.dtype)) % 7


def test_operations_of_one_array() -> None:
    same(
        lambda a, x: (_jnp.stack([mixed(getattr(lax, name)(a[0] + x), a[0]) for name in UNARY.split()]), None),
        A[None].repeat(len(UNARY.split()), 0),
        XS,
    )


def test_operations_of_two_arrays() -> None:
    same(lambda a, x: (a * 0.5, [mixed(getattr(lax, name)(a, x), a) for name in BINARY.split()] + [a > x]), A, XS)


def test_operations_of_integers() -> None:
    elements = numbers(STEPS, 3, 4, dtype="int32") + 1
    same(lambda a, x: ((a + x) % 7, [getattr(lax, name)(a, x) for name in INTEGERS.split()] + [~a]), WHOLE, elements)


OTHERS: dict[str, Callable[[Any], Any]] = {
    "argmax": lambda a: _jnp.argmax(a, axis=1),
    "argmin": lambda a: _jnp.argmin(a),
    "bitcast_convert_type": lambda a: lax.bitcast_convert_type(_jnp.round(4 * a), "int32"),
    "broadcast_in_dim": lambda a: _jnp.broadcast_to(a[:, None], (3, 2, 4)),
    "clamp": lambda a: lax.clamp(0.2, a, 0.4),
    "concatenate": lambda a: _jnp.concatenate([a, 2 * a], axis=1),
    "dot_general": lambda a: a @ a.T,
    "dot_general, batched": lambda a: _jnp.einsum("bij,bkj->bik", *[_jnp.broadcast_to(a, (2, 3, 4))] * 2),
    "dot_general, vector": lambda a: a @ a[0],
    "dynamic_slice": lambda a: lax.dynamic_slice(a, (_jnp.argmax(a[:, 0]), 0), (1, 4)),
    "dynamic_update_slice": lambda a: lax.dynamic_update_slice(a, a[:1] * 2, (1, 0)),
    "expand_dims": lambda a: _jnp.expand_dims(a, 1),
    "gather": lambda a: a[_jnp.array([2, 0, 2]), _jnp.array([1, 3, 0])],
    "integer_pow": lambda a: a**3,
    "iota": lambda a: _jnp.arange(4) * a,
    "logical": lambda a: (a > 0.5) & ~(a > 0.7) | (a < 0.2) ^ (a > 0.3),
    "pad": lambda a: _jnp.pad(a, ((1, 1), (0, 2))),
    "reduce_and": lambda a: (a > 0.5).all(0),
    "reduce_max": lambda a: a.max(1),
    "reduce_min": lambda a: a.min(),
    "reduce_or": lambda a: (a > 0.5).any(1),
    "reduce_prod": lambda a: a.prod(0),
    "reduce_sum": lambda a: a.sum((0, 1)),
    "relu, gelu, softmax": lambda a: _jax.nn.softmax(_jax.nn.relu(a) + _jax.nn.gelu(a)),
    "rev": lambda a: a[::-1],
    "scatter": lambda a: a.at[_jnp.array([0, 2])].set(0.5),
    "scatter, out of bounds": lambda a: a.at[_jnp.array([0, 9])].set(0.5),
    "scatter, clipped": lambda a: a.at[_jnp.array([0, 9])].set(0.5, mode="clip"),
    "scatter-add": lambda a: a.at[_jnp.array([0, 2, 0]), _jnp.array([1, 1, 1])].add(a[0, 0]),
    "scatter-add, rows": lambda a: a.at[_jnp.argmax(a, axis=1)].add(0.1),
    "scatter-add, columns": lambda a: a.at[:, _jnp.array([3, 3])].add(0.1),
    "scatter-add, batched": lambda a: _jax.vmap(lambda row, i: row.at[i].add(0.3))(a, _jnp.argmax(a, axis=1)),
    "select_n": lambda a: _jnp.where(a > 0.5, a, -a),
    "split": lambda a: _jnp.split(a, 2, axis=1)[1],
    "squeeze": lambda a: a[:, :1].squeeze(1),
    "stop_gradient": lambda a: lax.stop_gradient(a),
    "transpose": lambda a: a.T,
}


NOTHING: dict[str, Callable[[Any], Any]] = {  # of which XLA's simplifications leave nothing, so that an argument seems to have no use
    "times nothing": lambda a: (a * 4).astype("int32") * 0,
    "overwritten": lambda a: lax.dynamic_update_slice(a, _jnp.ones((3, 4)), (0, 0)),
    "never chosen": lambda a: _jnp.where(True, _jnp.ones((3, 4)), a),
    "only the padding": lambda a: _jnp.pad(a.reshape(-1), (3, 0))[:3],
    "a captured array": lambda a: a + B,
    "only a captured array": lambda a: _jnp.asarray(B),
    "a constant": lambda a: _jnp.zeros(3),
}


def test_other_operations() -> None:
    same(lambda a, x: (mixed(a * x, a), [(function(a * x), function(x)) for function in OTHERS.values()]), A, XS)


PLACES = {
    "int8": [3, -2, 127],
    "uint8": [3, 200, 255],
    "int16": [3, -2, 500],
    "int32": [299, -(2**31), 300],
    "uint32": [0, 2**32 - 1, 300],
}


@pytest.mark.parametrize("mode", ["clip", "drop"])
def test_scatters_to_places_of_each_dtype_within_bounds_and_beyond(mode: str) -> None:
    numbers = lax.ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    updates = np.arange(1, 4, dtype=np.float32)
    there = {dtype: np.array(places, dtype)[:, None] for dtype, places in PLACES.items()}
    # Without its fusion emitters XLA:CPU compares places with the bounds in the dtype of the places, in which there may be no 300.
    wide = {dtype: own.astype(np.int32) if own.itemsize == 1 else own for dtype, own in there.items()}

    def body(carry: Any, x: Any, there: Any = there) -> Any:
        added = {name: a + lax.scatter(a, there[name], updates, numbers, mode=mode) for name, a in carry.items()}
        return added, {name: lax.scatter_add(a, there[name], updates * x[0, 0], numbers, mode=mode) for name, a in carry.items()}

    same(body, {dtype: np.zeros(300, np.float32) for dtype in PLACES}, XS, like=functools.partial(body, there=wide))


def test_arguments_without_a_use() -> None:
    """Each function has arguments of its own."""

    def body(carry: Any, x: Any) -> Any:
        return {name: mixed(NOTHING[name](a), a) for name, a in carry.items()}, {name: NOTHING[name](x[name]) for name in carry}

    same(body, dict.fromkeys(NOTHING, A), dict.fromkeys(NOTHING, XS))


def test_carries_that_stay_are_swapped_or_are_not_read() -> None:
    def step(carry: Any, x: Any) -> Any:
        a, b, kept, _, nothing = carry
        return (b, a, kept, x, _jnp.zeros_like(nothing)), (kept, kept, 1.0)

    same(step, (A, B, A, B, np.zeros((), np.int32)), numbers(STEPS, 3, 4))
    same(lambda a, _: (a, None), A)


def test_dtypes() -> None:
    arrays: list[Any] = [numbers(3, 4, dtype=dtype) for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32")]
    arrays.append(arrays[0] > 3)
    rows = [_jnp.stack([array[::-1]] * STEPS) for array in arrays]
    same(lambda carry, xs: ([_jnp.where(a > x, a, x) for a, x in zip(carry, xs, strict=True)], carry), arrays, rows)


def test_dtypes_of_64_bits() -> None:
    with _jax.enable_x64(True):
        same(lambda a, x: (a * 0.5 + x @ x.T @ a, a.sum()), numbers(3, 4, dtype="float64"), numbers(STEPS, 3, 4, dtype="float64"))
        same(lambda a, x: ((a * x) % 11, a), numbers(3, 4, dtype="int64"), numbers(STEPS, 3, 4, dtype="int64"))


@pytest.mark.parametrize(
    ("why", "step", "carry"),
    [
        ("a large carry", lambda a, x: (a + 1, None), np.zeros(tiny_steps.MOST_NUMBERS + 1, np.float32)),
        ("a large value", lambda a, x: (a + _jnp.broadcast_to(a, (300, 4)).sum(0), None), numbers(4)),
        ("a large product", lambda a, x: (a * 0.5 + 0.01 * a @ a, None), numbers(24, 24)),
        ("no numbers", lambda a, x: (a, None), np.zeros((0,), np.float32)),
        ("half precision", lambda a, x: (a * 2, None), np.ones(4, np.float16)),
        ("a sort", lambda a, x: (_jnp.sort(a * 1.1), None), numbers(12)),
        ("a branch", lambda a, x: (lax.cond(a[0] > 0, lambda a: a * 0.5, lambda a: a, a), None), numbers(12)),
        ("a loop", lambda a, x: (lax.fori_loop(0, 3, lambda _, a: a * 0.5, a), None), numbers(12)),
        ("a solve", lambda a, x: (_jnp.linalg.cholesky(a @ a.T + 9 * _jnp.eye(4)), None), numbers(4, 4)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_others_are_compiled_as_they_are(why: str, step: Step, carry: Any) -> None:
    del why
    same(step, carry, quick=False)


def test_effects_and_callbacks_are_compiled_as_they_are() -> None:
    def step(a: Any, _: Any) -> Any:
        return _jax.pure_callback(lambda a: np.asarray(a) * 2, _jax.ShapeDtypeStruct((4,), "float32"), a), None

    same(step, numbers(4), quick=False)


def test_a_single_step_is_compiled_as_it_is() -> None:
    same(lambda a, x: (a + x, None), A, numbers(1, 3, 4), quick=False, length=1)


def test_the_body_is_not_traced_again() -> None:
    traced: list[int] = []

    def body(a: Any) -> Any:
        traced.append(1)
        return a * 0.5 + 1

    repeat(8, body, _jnp.array(A))
    once = len(traced)
    repeat(8, body, _jnp.array(A))
    assert once == 1
    assert len(traced) == 1


def test_no_step_is_compiled_so_when_the_user_says_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILESTEP_TINY_STEPS", "0")
    same(lambda a, x: (a + x, None), A, XS, quick=False)
    monkeypatch.setenv("TILESTEP_TINY_STEPS", "perhaps")
    with pytest.raises(SettingsError, match=r"TILESTEP_TINY_STEPS is 'perhaps': it must be one of yes/.*/1/on or no/.*/0/off"):
        repeat(4, lambda a: a * 2, np.float32(1))
