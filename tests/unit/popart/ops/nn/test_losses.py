"""Losses: values and gradients by hand."""

from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.popart.ops.graphcore import gradient, holds, outputs, slope_holds
from tilestep.popart.exceptions import popart_exception

F = np.float32
X = np.random.default_rng(0).standard_normal((2, 3)).astype(F)
P = np.random.default_rng(1).dirichlet(np.ones(4), (2, 3)).astype(F)
LABELS = np.array([[0, 3, 1], [2, 2, 0]], np.int32)
REDUCE: dict[str, Any] = {"None": lambda x: x, "Sum": lambda x: x.sum(), "Mean": lambda x: x.mean()}


def chosen(p: Any) -> Any:
    return np.take_along_axis(p, LABELS[..., None], -1)[..., 0]


@each("reduction", ["None", "Sum", "Mean"])
def test_identity_loss(reduction: str) -> None:
    holds([REDUCE[reduction](X)], "IdentityLoss", [X], reduction=reduction)


def test_the_l1_losss_gradient_is_its_sign_and_0_at_0() -> None:
    x = np.array([-2, 0, 3], F)
    np.testing.assert_allclose(gradient("L1", [x], reduction="Sum", **{"lambda": 0.5}), [-0.5, 0, 0.5])


def test_the_l1_loss_takes_no_scalar() -> None:
    with pytest.raises(popart_exception, match="L1Op not valid for rank-0 tensor"):
        outputs("L1", [np.zeros((), F)], **{"lambda": 0.1})


def test_the_nll_losss_logarithm_and_gradient_have_floors() -> None:
    p = np.array([[0, 1], [1, 0]], F)
    labels = np.array([0, 1], np.int32)
    holds([np.full(2, -np.log(1e-7), F)], "Nll", [p, labels], reduction="None")
    np.testing.assert_allclose(gradient("Nll", [p, labels], reduction="Sum"), [[-1e10, 0], [0, -1e10]], 1e-6)
    half = gradient("Nll", [p.astype(np.float16), labels], reduction="Sum")
    assert np.isfinite(half).all()
    assert half[0, 0] < -16000


def test_an_ignored_label_does_not_count_in_the_mean() -> None:
    counts = LABELS != 2
    expected = -(np.log(chosen(P)) * counts).sum() / counts.sum()
    holds([expected.astype(F)], "Nll", [P, LABELS], ignoreIndex=2)
    slope = gradient("Nll", [P, LABELS], ignoreIndex=2)
    assert not slope[1, :2].any()
    np.testing.assert_allclose(slope[0, 0, 0], -1 / P[0, 0, 0] / 4, 1e-5)


def test_if_all_labels_are_ignored_the_mean_is_0() -> None:
    holds([F(0)], "Nll", [P, np.full_like(LABELS, 2)], ignoreIndex=2)


def test_labels_of_another_shape_or_type_are_refused() -> None:
    message = (
        r"The label tensor \(INT32   \[2 5\]\) must have shape \[2 4\] to match all but the final dimension of the probabilities tensor"
    )
    with pytest.raises(popart_exception, match=message + r" \(FLOAT   \[2 4 3\]\)"):
        outputs("Nll", [np.ones((2, 4, 3), F), np.zeros((2, 5), np.int32)])
    with pytest.raises(popart_exception, match="Expected the label tensor NllOp to be an integer data type"):
        outputs("Nll", [P, P[..., 0]])


# ---- connectionist temporal classification


def by_all_paths(logarithms: Any, target: Any, blank: int) -> Any:
    """Minus the logarithm of the sum over all ways to emit the target."""
    total = 0.0
    times, classes = logarithms.shape
    for path in np.ndindex(*[classes] * times):
        labels = [label for i, label in enumerate(path) if (i == 0 or label != path[i - 1]) and label != blank]
        if labels == list(target):
            total += np.exp(sum(logarithms[t, label] for t, label in enumerate(path)))
    return -np.log(total) if total else np.inf


SCORES = np.random.default_rng(3).standard_normal((4, 3, 3)).astype(F)
LOGARITHMS = SCORES - np.log(np.exp(SCORES).sum(-1, keepdims=True))
TARGETS = np.array([[1, 2], [1, 1], [2, 0]], np.uint32)
TIMES, LENGTHS = np.array([4, 3, 4], np.uint32), np.array([2, 2, 1], np.uint32)
EACH = np.array([by_all_paths(LOGARITHMS[:t, n], TARGETS[n, :s], 0) for n, (t, s) in enumerate(zip(TIMES, LENGTHS, strict=True))], F)
CTC = [LOGARITHMS, TARGETS, TIMES, LENGTHS]


@each("reduction", ["None", "Sum", "Mean"])
def test_ctc_loss(reduction: str) -> None:
    losses = EACH / LENGTHS if reduction == "Mean" else EACH
    holds([REDUCE[reduction](losses).astype(F)], "Ctc", CTC, reduction=reduction)


@pytest.mark.slow
def test_the_ctc_losss_gradient_is_its_slope_and_its_second_output() -> None:
    slope_holds("Ctc", CTC, reduction="Sum")
    _, each = outputs("Ctc", CTC, count=2, reduction="Sum")
    np.testing.assert_allclose(each, gradient("Ctc", CTC, reduction="Sum"), 1e-5, 1e-6)
    assert not each[3, 1].any()  # a time beyond the second input's end


def test_an_empty_target_is_all_blanks() -> None:
    nothing = np.zeros(3, np.uint32)
    expected = [-LOGARITHMS[:t, n, 0].sum() for n, t in enumerate(TIMES)]
    holds([np.array(expected, F)], "Ctc", [*CTC[:3], nothing], reduction="None")


@each(
    "position, value, message",
    [(0, np.zeros((4, 3), F), "rank 3"), (1, np.zeros((2, 2), np.uint32), "'targets'"), (2, np.zeros(2, np.uint32), "'input lengths'")],
)
def test_the_ctc_loss_refuses_other_shapes(position: int, value: Any, message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        outputs("Ctc", [value if i == position else x for i, x in enumerate(CTC)])
