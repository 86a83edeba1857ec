"""Linear models and support vector machines of the domain ai.onnx.ml, and what all its classifiers share: labels, score transforms.

Where the text of the standard leaves scores open, they are ONNX Runtime's.
"""

from collections.abc import Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.convert import convert, fitting
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import Array, known
from tilestep.onnx.ops.ml.features import ML
from tilestep.onnx.ops.tensor.strings import text_array

_TINY: Final = 1e-7  # scores that a softmax of what isn't zero takes for zero, and the least probability of two classes
_MOST_COUPLING_ROUNDS: Final = 100
_KERNELS: Final = ("LINEAR", "POLY", "RBF", "SIGMOID")


def transformed(scores: Any, transform: str) -> Any:
    """Scores [rows, n] after a post-transform. Raises: ValueError for an unknown one."""
    match transform:
        case "NONE":
            return scores
        case "LOGISTIC":
            return jax.nn.sigmoid(scores)
        case "SOFTMAX":
            return jax.nn.softmax(scores, axis=-1)
        case "SOFTMAX_ZERO":
            there = abs(scores) > _TINY
            exponents = jnp.exp(scores - lax.stop_gradient(scores.max(-1, keepdims=True)))
            total = jnp.where(there, exponents, 0).sum(-1, keepdims=True)
            return jnp.where(there, exponents / jnp.where(total == 0, 1, total), 0)
        case "PROBIT":
            return jax.scipy.special.ndtri(scores)
        case _:
            raise ValueError(f"post_transform '{transform}', which must be NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT")


def both_scores(score: Any, transform: str, *, opposite: bool) -> Any:
    """The scores of two classes, of one score [rows, 1] of the second: 1 - score beside it, or its opposite. Softmaxes have no effect.

    Raises: ValueError for PROBIT, which has no meaning here.
    """
    if transform == "PROBIT":
        raise ValueError("post_transform PROBIT of one score for two classes")
    transformed(score, transform)
    if transform == "LOGISTIC":
        return jax.nn.sigmoid(jnp.concatenate([-score, score], 1))
    return jnp.concatenate([-score if opposite else 1 - score, score], 1)


def labels_of(ints: Sequence[int], strings: Sequence[str]) -> Array:
    """A classifier's labels. Raises: ValueError unless exactly one kind is given."""
    if bool(ints) == bool(strings):
        raise ValueError("it needs integers or texts as class labels, and not both")
    return np.asarray(ints, np.int64) if ints else text_array(list(strings), (len(strings),))


def label_at(labels: Array, places: Any) -> Any:
    """The labels at the places. Raises: NeedsValueError if labels are text and the places are traced."""
    if labels.dtype == np.dtype(object):
        return labels[known(places, "the class, because its labels are text")]
    return jnp.asarray(fitting(labels))[places]


def _floats(x: Any) -> Any:
    if x.ndim not in (1, 2):
        raise ValueError(f"its input has the shape {list(x.shape)}, and needs [rows, features]")
    return jnp.asarray(convert(x.reshape(-1, x.shape[-1]), np.float32))


def _scores(x: Any, coefficients: Sequence[float], intercepts: Sequence[float], count: int) -> Any:
    """x [rows, features] times coefficients [count, features], plus intercepts. Coefficients at the end may be left over."""
    wanted = count * x.shape[1]
    if len(coefficients) < wanted or len(intercepts) not in (0, count):
        raise ValueError(
            f"it has {len(coefficients)} coefficients and {len(intercepts)} intercepts for {count} scores of {x.shape[1]} features"
        )
    product = jnp.matmul(x, np.asarray(coefficients[:wanted], np.float32).reshape(count, -1).T)
    return product + np.asarray(intercepts, np.float32) if intercepts else product


@op("LinearRegressor", domain=ML)
def linear_regressor(
    call: Call,
    x: Any,
    *,
    coefficients: Sequence[float] = (),
    intercepts: Sequence[float] = (),
    post_transform: str = "NONE",
    targets: int = 1,
) -> Any:
    """A linear function of each row's features: [rows, targets]."""
    return transformed(_scores(_floats(x), coefficients, intercepts, targets), post_transform)


@op("LinearClassifier", domain=ML)
def linear_classifier(
    call: Call,
    x: Any,
    *,
    coefficients: Sequence[float],
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    intercepts: Sequence[float] = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Any, Any]:
    """The label of the best score, and all scores: [rows], [rows, classes]. One score is that of the second of two classes.

    `multi_class` has no effect, because `post_transform` says what it would.
    """
    labels, rows = labels_of(classlabels_ints, classlabels_strings), _floats(x)
    count = len(intercepts) or len(coefficients) // max(1, rows.shape[1])
    scores = _scores(rows, coefficients, intercepts, count)
    if count == 1 and len(labels) == 2:
        return label_at(labels, (scores[:, 0] > 0).astype(np.int32)), both_scores(scores, post_transform, opposite=False)
    if count != len(labels):
        raise ValueError(f"it has {len(labels)} labels, and {count} scores")
    return label_at(labels, scores.argmax(-1)), transformed(scores, post_transform)


def _kernel(x: Any, vectors: Array, kind: str, parameters: Sequence[float]) -> Any:
    """The kernel of each row with each support vector: [rows, vectors]. Parameters: gamma, coef0, degree."""
    if kind not in _KERNELS or (kind != "LINEAR" and len(parameters) != 3):
        raise ValueError(f"kernel_type '{kind}' with {len(parameters)} parameters: it needs one of {', '.join(_KERNELS)} and 3")
    product = jnp.matmul(x, vectors.T)
    if kind == "LINEAR":
        return product
    gamma, offset, degree = parameters
    match kind:
        case "POLY":
            base = gamma * product + offset
            return base ** int(degree) if degree == int(degree) else base**degree
        case "SIGMOID":
            return jnp.tanh(gamma * product + offset)
        case _:
            return jnp.exp(-gamma * ((x[:, None] - vectors) ** 2).sum(-1))


def _vectors(values: Sequence[float], count: int, features: int) -> Array:
    if len(values) != count * features:
        raise ValueError(f"its support_vectors have {len(values)} elements, and need {count} x {features}")
    return np.asarray(values, np.float32).reshape(count, features)


@op("SVMRegressor", domain=ML)
def svm_regressor(
    call: Call,
    x: Any,
    *,
    coefficients: Sequence[float] = (),
    kernel_params: Sequence[float] = (),
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Sequence[float] = (0.0,),
    support_vectors: Sequence[float] = (),
) -> Any:
    """A weighted sum of kernels with support vectors, or a linear function without them: [rows, 1]. Of one class it is 1 inside or -1."""
    rows = _floats(x)
    if n_supports:
        rows = _kernel(rows, _vectors(support_vectors, n_supports, rows.shape[1]), kernel_type, kernel_params)
    score = _scores(rows, coefficients, rho[:1], 1)
    return jnp.where(score > 0, 1.0, -1.0).astype(score.dtype) if one_class else transformed(score, post_transform)


@op("SVMClassifier", domain=ML)
def svm_classifier(
    call: Call,
    x: Any,
    *,
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    coefficients: Sequence[float] = (),
    kernel_params: Sequence[float] = (),
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Sequence[float] = (),
    prob_b: Sequence[float] = (),
    rho: Sequence[float] = (),
    support_vectors: Sequence[float] = (),
    vectors_per_class: Sequence[int] = (),
) -> tuple[Any, Any]:
    """The label with most votes, and scores: one for each pair of classes, or with `prob_a` and `prob_b` a probability for each class.

    Without support vectors it is a linear classifier of three classes or more, with one `rho` for all.
    """
    labels, rows = labels_of(classlabels_ints, classlabels_strings), _floats(x)
    count = len(labels)
    if not vectors_per_class:
        if count < 3:
            raise ValueError(f"it has {count} classes and no support vectors: make it a LinearClassifier")
        scores = _scores(rows, coefficients, (), count) + float(rho[0] if rho else 0)
        return label_at(labels, scores.argmax(-1)), transformed(scores, post_transform)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    if len(vectors_per_class) != count or len(rho) != len(pairs) or len(prob_a) != len(prob_b) or len(prob_a) not in (0, len(pairs)):
        raise ValueError(f"{count} classes need as many vectors_per_class, and {len(pairs)} of rho, and of prob_a and prob_b if given")
    total = sum(vectors_per_class)
    kernel = _kernel(rows, _vectors(support_vectors, total, rows.shape[1]), kernel_type, kernel_params)
    scores = jnp.matmul(kernel, _pair_weights(coefficients, vectors_per_class, pairs)) + np.asarray(rho, np.float32)
    first, second = np.array([i for i, _ in pairs]), np.array([j for _, j in pairs])
    votes = (jnp.where(scores > 0, first, second)[..., None] == np.arange(count)).sum(1)
    winner = label_at(labels, votes.argmax(-1))
    if prob_a:
        chances = jax.nn.sigmoid(-(scores * np.asarray(prob_a, np.float32) + np.asarray(prob_b, np.float32)))
        return winner, transformed(_coupled(jnp.clip(chances, _TINY, 1 - _TINY), first, second, count), post_transform)
    return winner, both_scores(scores, post_transform, opposite=post_transform == "NONE") if count == 2 else transformed(
        scores, post_transform
    )


def _pair_weights(coefficients: Sequence[float], counts: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Array:
    """The weight of each support vector in the score of each pair: [vectors, pairs]. Coefficients are [classes - 1, vectors]."""
    total = sum(counts)
    if len(coefficients) != total * (len(counts) - 1):
        raise ValueError(f"it has {len(coefficients)} coefficients, and needs {len(counts) - 1} x {total}")
    given = np.asarray(coefficients, np.float32).reshape(-1, total)
    ends = np.cumsum(counts)
    weights = np.zeros((total, len(pairs)), np.float32)
    for number, (i, j) in enumerate(pairs):
        for one, other in ((i, j - 1), (j, i)):
            own = slice(ends[one] - counts[one], ends[one])
            weights[own, number] = given[other, own]
    return weights


def _coupled(chances: Any, first: Array, second: Array, count: int) -> Any:
    """Probabilities of classes [rows, classes], of the first's against the second's of each pair (Wu, Lin, Weng 2004, algorithm 2)."""
    against = jnp.zeros((len(chances), count, count), chances.dtype).at[:, first, second].set(chances).at[:, second, first].set(1 - chances)
    q = -jnp.swapaxes(against, 1, 2) * against
    q = q.at[:, np.arange(count), np.arange(count)].set((jnp.swapaxes(against, 1, 2) ** 2).sum(-1))

    def turn(_: Any, p: Any) -> Any:
        qp = jnp.einsum("nij,nj->ni", q, p)
        pqp = (p * qp).sum(-1)
        done = abs(qp - pqp[:, None]).max(-1) < 0.005 / count
        moved = p
        for k in range(count):
            step = (pqp - qp[:, k]) / q[:, k, k]
            moved = moved.at[:, k].add(step)
            pqp = (pqp + step * (step * q[:, k, k] + 2 * qp[:, k])) / (1 + step) ** 2
            qp = (qp + step[:, None] * q[:, k]) / (1 + step)[:, None]
            moved = moved / (1 + step)[:, None]
        return jnp.where(done[:, None], p, moved)

    return lax.fori_loop(0, _MOST_COUPLING_ROUNDS, turn, jnp.full((len(chances), count), 1 / count, chances.dtype))
