"""RNN, GRU and LSTM: one matrix product for all inputs of a direction, then a scan over time.

Shapes: x [time, batch, inputs], weights [directions, gates x hidden, ...], biases [directions, 2 x gates x hidden] (of the inputs, then
of the hidden state), states [directions, batch, hidden]. With layout 1 the batch comes first in x, states and results.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import jax
import jax.numpy as jnp
from jax import lax

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import is_known

Activation = Callable[[Any], Any]
Cell = Callable[..., tuple[Any, ...]]  # the inputs' part of the gates, the states, the weights -> the new states

_GIVEN: Final = float("nan")
# Function of (x, alpha, beta), then the defaults of alpha and beta: None if it takes none, _GIVEN if the model must say.
_ACTIVATIONS: Final[dict[str, tuple[Callable[[Any, Any, Any], Any], float | None, float | None]]] = {
    "relu": (lambda x, a, b: jnp.maximum(x, 0), None, None),
    "tanh": (lambda x, a, b: jnp.tanh(x), None, None),
    "sigmoid": (lambda x, a, b: jax.nn.sigmoid(x), None, None),
    "affine": (lambda x, a, b: a * x + b, _GIVEN, _GIVEN),
    "leakyrelu": (lambda x, a, b: jnp.where(x >= 0, x, a * x), 0.01, None),
    "thresholdedrelu": (lambda x, a, b: jnp.where(x >= a, x, 0), 1.0, None),
    "scaledtanh": (lambda x, a, b: a * jnp.tanh(b * x), _GIVEN, _GIVEN),
    "hardsigmoid": (lambda x, a, b: jnp.clip(a * x + b, 0, 1), 0.2, 0.5),
    "elu": (lambda x, a, b: jnp.where(x >= 0, x, a * jnp.expm1(jnp.minimum(x, 0))), 1.0, None),
    "softsign": (lambda x, a, b: x / (1 + abs(x)), None, None),
    "softplus": (lambda x, a, b: jax.nn.softplus(x), None, None),
}
_CLIPPED: Final = 2  # activations of a direction that clip their input: the LSTM's third one, of the cell state, doesn't
_DIRECTIONS: Final = {
    "forward": (False,),
    "foward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}  # GRU-1's default has no r


@dataclass(frozen=True, kw_only=True)
class _Weights:
    """What a cell of one direction computes with.

    Attributes:
        hidden: [gates x hidden, hidden]. hidden_bias: [gates x hidden]. peepholes: [3 x hidden], or None.
        left: of the hidden state: what is multiplied by the weights.
        activations: in the order of the equations; those of the gates clip their input.
    """

    hidden: Any
    hidden_bias: Any
    peepholes: Any
    activations: Sequence[Activation]
    left: Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class _Options:
    """The attributes that the three operators share, by ONNX's names, and how many gates and activations a direction has.

    `output_sequence`, of version 1, has no effect.
    """

    gates: int
    functions: int
    activations: Sequence[str]
    activation_alpha: Sequence[float] = ()
    activation_beta: Sequence[float] = ()
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None
    layout: int = 0
    output_sequence: int = 0

    @classmethod
    def of(cls, gates: int, usual: Sequence[str], attributes: Mapping[str, Any]) -> Self:
        """Args: usual: the activations of a direction if a model names none."""
        names = attributes.get("activations") or (*usual, *usual)
        fields: dict[str, Any] = {**attributes, "gates": gates, "functions": len(usual), "activations": names}
        return cls(**fields)

    @property
    def backwards(self) -> tuple[bool, ...]:
        if self.direction not in _DIRECTIONS:
            raise ValueError(f"direction '{self.direction}', which must be 'forward', 'reverse' or 'bidirectional'")
        return _DIRECTIONS[self.direction]

    def activations_of_directions(self) -> list[list[Activation]]:
        """The activations of each direction. `alpha` and `beta` are for those that take them, in order."""
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip is {self.clip}, and must be above 0")
        needed = self.functions * len(self.backwards)
        if len(self.activations) < needed:
            raise ValueError(f"it has {len(self.activations)} activations, and needs {needed}")
        alphas, betas = iter(self.activation_alpha), iter(self.activation_beta)
        made = [
            _activation(name, alphas, betas, self.clip if i % self.functions < _CLIPPED else None)
            for i, name in enumerate(self.activations[:needed])
        ]
        return [made[first : first + self.functions] for first in range(0, needed, self.functions)]


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float], clip: float | None) -> Activation:
    if name.lower() not in _ACTIVATIONS:
        raise ValueError(f"activation '{name}', which must be one of {', '.join(_ACTIVATIONS)}")
    function, alpha, beta = _ACTIVATIONS[name.lower()]
    alpha = None if alpha is None else next(alphas, alpha)
    beta = None if beta is None else next(betas, beta)
    if alpha is _GIVEN or beta is _GIVEN:
        raise ValueError(f"activation '{name}' has no default of alpha and beta: give activation_alpha and activation_beta")

    def apply(x: Any) -> Any:
        return function(x if clip is None else jnp.clip(x, -clip, clip), alpha, beta).astype(x.dtype)

    return apply


def _recurrent(
    cell: Cell,
    options: _Options,
    x: Any,
    w: Any,
    r: Any,
    b: Any,
    lengths: Any,
    states: Sequence[Any],
    peepholes: Any = None,
    *,
    split: int = 0,
    left: Callable[[Any], Any] = lambda x: x,
) -> tuple[Any, ...]:
    """All directions. Returns: the hidden states of all times, then the last of each state.

    Args:
        split: gates at the end whose bias of the hidden state is added by the cell.
        left: of inputs and hidden states: what is multiplied by the weights.
    """
    x, w, r = jnp.asarray(x), jnp.asarray(w), jnp.asarray(r)
    hidden = r.shape[-1]
    _check(options, x, w, r, hidden)
    x = jnp.swapaxes(x, 0, 1) if options.layout else x
    zeros = jnp.zeros((len(options.backwards), x.shape[1], hidden), x.dtype)
    starts = [zeros if state is None else jnp.swapaxes(state, 0, 1) if options.layout else jnp.asarray(state) for state in states]
    size = options.gates * hidden
    bias = jnp.zeros((len(options.backwards), 2 * size), x.dtype) if b is None else jnp.asarray(b)
    merged = size - split * hidden
    results: list[tuple[Any, ...]] = []
    for i, (backwards, activations) in enumerate(zip(options.backwards, options.activations_of_directions(), strict=True)):
        own = jnp.concatenate([bias[i, :merged] + bias[i, size : size + merged], bias[i, merged:size]])
        inputs = jnp.matmul(left(x), w[i].T) + own
        weights = _Weights(
            hidden=r[i],
            hidden_bias=bias[i, size:],
            peepholes=None if peepholes is None else peepholes[i],
            activations=activations,
            left=left,
        )
        results.append(_direction(functools.partial(cell, weights=weights), inputs, [start[i] for start in starts], lengths, backwards))
    all_times = jnp.stack([result[0] for result in results], axis=1)
    last = [jnp.stack(state) for state in zip(*(result[1:] for result in results), strict=True)]
    if options.layout:
        return jnp.transpose(all_times, (2, 0, 1, 3)), *(jnp.swapaxes(state, 0, 1) for state in last)
    return all_times, *last


def _check(options: _Options, x: Any, w: Any, r: Any, hidden: int) -> None:
    directions = len(options.backwards)
    wanted = (directions, options.gates * hidden, hidden), (directions, options.gates * hidden, x.shape[-1])
    if x.ndim != 3 or r.shape != wanted[0] or w.shape != wanted[1]:
        raise ValueError(f"R is {list(r.shape)} and W {list(w.shape)}, and it needs {list(wanted[0])} and {list(wanted[1])}")
    if options.hidden_size is not None and options.hidden_size != hidden:
        raise ValueError(f"hidden_size is {options.hidden_size}, and R has {hidden}")


def _direction(cell: Callable[..., tuple[Any, ...]], inputs: Any, starts: Sequence[Any], lengths: Any, backwards: bool) -> tuple[Any, ...]:
    """One direction. Times beyond an example's length leave its states as they are, and give zeros."""
    ends = None if lengths is None else jnp.asarray(lengths)[:, None]

    def step(states: tuple[Any, ...], now: tuple[Any, Any]) -> tuple[tuple[Any, ...], Any]:
        time, part = now
        new = cell(part, states)
        if ends is None:
            return new, new[0]
        runs = time < ends
        return tuple(jnp.where(runs, value, old) for value, old in zip(new, states, strict=True)), jnp.where(runs, new[0], 0)

    times = jnp.arange(inputs.shape[0])
    final, hidden = lax.scan(step, tuple(starts), (times, inputs), reverse=backwards)
    return hidden, *final


def _rnn_cell(part: Any, states: Any, weights: _Weights) -> tuple[Any, ...]:
    (h,) = states
    return (weights.activations[0](part + jnp.matmul(h, weights.hidden.T)),)


@op("RNN")
def rnn(call: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, **attributes: Any) -> tuple[Any, ...]:
    """H = f(x W + H R + b) at each time. It gives all H, then the last."""
    options = _Options.of(1, ("Tanh",), attributes)
    return _recurrent(_rnn_cell, options, x, w, r, b, lengths, [h])


def _gru_cell(part: Any, states: Any, weights: _Weights, *, linear_before_reset: bool) -> tuple[Any, ...]:
    (h,) = states
    f, g = weights.activations
    size = h.shape[-1]
    first = weights.hidden if linear_before_reset else weights.hidden[: 2 * size]
    product = jnp.matmul(h, first.T)
    z = f(part[:, :size] + product[:, :size])
    reset = f(part[:, size : 2 * size] + product[:, size : 2 * size])
    if linear_before_reset:
        inner = reset * (product[:, 2 * size :] + weights.hidden_bias[2 * size :])
    else:
        inner = jnp.matmul(reset * h, weights.hidden[2 * size :].T)
    return ((1 - z) * g(part[:, 2 * size :] + inner) + z * h,)


@op("GRU")
def gru(
    call: Call,
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
    *,
    linear_before_reset: int = 0,
    **attributes: Any,
) -> tuple[Any, ...]:
    """The gates are z (update), r (reset) and h (hidden), in this order. It gives all hidden states, then the last.

    From version 3 on `linear_before_reset` has the reset gate multiply the product with the hidden state, not the state.
    """
    options = _Options.of(3, ("Sigmoid", "Tanh"), attributes)
    cell = functools.partial(_gru_cell, linear_before_reset=bool(linear_before_reset))
    return _recurrent(cell, options, x, w, r, b, lengths, [h], split=1 if linear_before_reset else 0)


def _lstm_cell(part: Any, states: Any, weights: _Weights, *, input_forget: bool) -> tuple[Any, ...]:
    h, c = states
    f, g, last = weights.activations
    i, o, forget, candidate = jnp.split(part + jnp.matmul(weights.left(h), weights.hidden.T), 4, axis=-1)
    of_i, of_o, of_forget = (0, 0, 0) if weights.peepholes is None else jnp.split(weights.peepholes, 3)
    i = f(i + of_i * c)
    forget = 1 - i if input_forget else f(forget + of_forget * c)
    c = forget * c + i * g(candidate)
    return f(o + of_o * c) * last(c), c


@op("LSTM")
def lstm(
    call: Call,
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
    c: Any = None,
    p: Any = None,
    *,
    input_forget: int = 0,
    left: Callable[[Any], Any] = lambda x: x,
    **attributes: Any,
) -> tuple[Any, ...]:
    """The gates are i (input), o (output), f (forget) and c (cell), in this order; peepholes `p` are of i, o and f.

    It gives all hidden states, then the last hidden and the last cell state. With `input_forget` the forget gate is 1 - i.

    Args: left: of inputs and hidden states: what is multiplied by the weights.
    """
    options = _Options.of(4, ("Sigmoid", "Tanh", "Tanh"), attributes)
    peepholes = p if p is None or not is_known(p) else jnp.asarray(p)
    cell = functools.partial(_lstm_cell, input_forget=bool(input_forget))
    return _recurrent(cell, options, x, w, r, b, lengths, [h, c], peepholes, left=left)
