"""Findings name the lines of the user's code, also for programs that the user did not write."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.behaviour.advice.fault import Fault, check, first_of, of_kind, profiled
from tilestep.advice import Finding
from tilestep.views.profile import Profile

STEPS = 10
BATCH = np.ones((64, 128), np.float32)


def line_of(function: Callable[..., Any], text: str) -> int:
    """The number of the one line of a function that has a text."""
    lines, first = inspect.getsourcelines(function)
    [found] = [number for number, line in enumerate(lines, first) if text in line]
    return found


def with_copies(number: int) -> Any:
    return jnp.asarray(BATCH + number)  # the copy


def training(*, copies: bool) -> Callable[[], Any]:
    def step(weights: Any, x: Any) -> Any:
        return weights - 1e-3 * (x.T @ (x @ weights))

    def program() -> Any:
        jitted = jax.jit(step, donate_argnums=0)
        weights: Any = np.ones((128, 128), np.float32)
        for number in range(STEPS):
            weights = jitted(weights, with_copies(number) if copies else BATCH + number)
        return weights

    return program


@pytest.mark.slow
def test_a_copy_of_an_array_of_the_host_is_found_where_the_user_makes_it() -> None:
    edit = "^pass the NumPy array straight to the jitted function, without jnp.asarray$"
    check(Fault("loads", edit, training(copies=True), training(copies=False), 0.02))
    found = first_of(profiled(training(copies=True)))
    assert found.line is not None
    assert (found.line.file, found.line.number) == (__file__, line_of(with_copies, "# the copy"))
    assert "jnp.asarray and jnp.array of an array of the host run jit_stage" in found.text


def test_copies_for_other_operations_are_not_told_to_be_passed_to_a_jitted_function() -> None:
    def program() -> Any:
        return [jnp.asarray(BATCH + number) * number for number in range(STEPS)]

    assert not [finding for finding in profiled(program).findings if finding.edit.startswith("pass")]


def several() -> list[Any]:
    found = [jnp.zeros((4, k + 1)) for k in range(8)]  # most
    found += [jnp.zeros((5, k + 1)) for k in range(2)]  # some
    return [*found, jnp.zeros((4, 1))]  # one that has a program already


@pytest.mark.slow
def test_lines_of_single_operations_come_with_their_shares_the_most_costly_first() -> None:
    [found] = of_kind(profiled(several), "loads")
    numbers = [line_of(several, text) for text in ("# most", "# some", "# one")]
    assert [line.number for line, _ in found.shares][:2] == numbers[:2]
    assert {line.number for line, _ in found.shares} == set(numbers)
    assert sum(share for _, share in found.shares) == pytest.approx(1)
    assert f"(test_lines.py:{numbers[0]} and 2 other lines)" in found.headline
    assert all(f"test_lines.py:{number} (" in found.text for number in numbers)
    assert [line["line"] for line in found.as_document()["lines"]] == [line.number for line, _ in found.shares]


def watched(*, copied: bool) -> Any:
    step = jax.jit(lambda x: (jax.lax.fori_loop(0, 200, lambda _, x: x * 1.01, x), x.sum()), donate_argnums=0)
    state: Any = np.ones(512, np.float32)
    for _ in range(100):
        state, loss = step(state)
        if copied:
            np.asarray(loss)  # the copy
        else:
            float(loss)  # the number
    return state


@pytest.mark.slow
@pytest.mark.parametrize("copied", [False, True])
def test_results_that_are_read_too_early_are_found_where_they_are_read(copied: bool) -> None:
    found = next(finding for finding in profiled(lambda: watched(copied=copied)).findings if finding.edit.startswith("read results"))
    assert found.line is not None
    assert found.line.number == line_of(watched, "# the copy" if copied else "# the number")
    assert "is called" not in found.text


def drawing() -> Any:
    return jax.random.normal(jax.random.key(1), (6, 6))


OPERATIONS: dict[str, Callable[[], Any]] = {
    "asarray": lambda: jnp.asarray(BATCH),
    "array": lambda: jnp.array(BATCH),
    "of a list": lambda: jnp.array([1.0, 2.0]),
    "zeros": lambda: jnp.zeros((5, 7)),
    "scalar": lambda: jnp.float32(3),
    "arange": lambda: jnp.arange(11),
    "draw": drawing,
    "key": lambda: jax.random.split(jax.random.PRNGKey(0), 3),
    "update": lambda: jnp.asarray(BATCH).at[0].set(1.0),
    "slice": lambda: jnp.asarray(BATCH)[2:5],
    "softmax": lambda: jax.nn.softmax(jnp.asarray(BATCH)),
    "einsum": lambda: jnp.einsum("ij,kj->ik", BATCH, BATCH),
    "cast": lambda: jnp.asarray(BATCH).astype(jnp.float16),
    "gradient": lambda: jax.grad(lambda x: (x * x).sum())(jnp.asarray(BATCH)),
    "scan": lambda: jax.lax.scan(lambda c, x: (c + x, c), jnp.zeros(128), jnp.asarray(BATCH)),
    "eye": lambda: jnp.linspace(0, 1, 9) * jnp.eye(9),
    "identity": lambda: jax.jit(lambda x: x)(BATCH),
}


def unplaced(profile: Profile) -> list[Finding]:
    """Findings that speak of a program and name no line of this file, and not what makes such a program."""
    names = {program.name for program in profile.programs}
    about = [finding for finding in profile.findings if any(name in finding.text + finding.edit for name in names)]
    return [finding for finding in about if finding.line is None or not finding.line.file.endswith("test_lines.py")]


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 8])
def test_no_finding_is_of_a_function_that_the_user_did_not_write_without_a_line_that_the_user_wrote(times: int) -> None:
    """Every second operation is done once, the others several times."""
    for name, operation in [*OPERATIONS.items()][times % 2 :: 2]:
        profile = profiled(lambda operation=operation: [operation() for _ in range(times)])
        assert profile.programs, name
        assert unplaced(profile) == [], name
        for finding in profile.findings:
            if finding.kind in ("limit", "set-up") and any(program.origin == "jax" for program in profile.programs):
                words = r"\(an operation outside of jit, at test_lines.py:\d+\)|\(which jnp.asarray .* at test_lines.py|jit_"
                assert re.search(words, finding.text), name
