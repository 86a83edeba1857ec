"""Where a function is jitted, as the user's source tells."""

from dataclasses import replace

from tests.unit.sim.toy import program, superstep
from tilestep.advice.user_code.jits import jit_of
from tilestep.plan.steps import Frame, Program

FILE = "/home/me/train.py"
BODY = "def update(params, x):\n    return params + x\n"  # the second line of a source that has one line before it
SOURCES = {
    "import jax\n" + BODY + "step = jax.jit(update, backend='ipu')": 4,
    "import jax\n" + BODY + "step = jax.jit(\n    update)": 4,
    "import jax\n" + BODY + "step = jit(partial(update), donate_argnames='x')": 4,
    "@jax.jit\n" + BODY: 1,
    "import functools; import jax\n@jax.jit\n" + BODY: 2,
    "@functools.partial(jax.jit, inline=True)\n" + BODY: 1,
    "import jax\n" + BODY + "a = jax.jit(update)\nb = jax.jit(update)": 2,  # which?
    "import jax\n" + BODY: 2,
    "import jax\n" + BODY + "step = jax.jit(other)": 2,
}


def called(name: str = "jit_update", function: str = "update", line: int = 3) -> Program:
    frames = (
        Frame(file=FILE, function="<module>", line=9, column=1, parent=0),
        Frame(file=FILE, function=function, line=line, column=5, parent=1),
    )
    return replace(program(replace(superstep(5), frame=2), name=name), frames=frames)


def test_the_line_that_jits_it() -> None:
    for source, line in SOURCES.items():
        jit = jit_of(called(), {FILE: source}.get)
        assert jit.line is not None, source
        assert jit.line.number == line, source


def test_a_lambda_is_told_by_its_line() -> None:
    source = "f = jax.jit(lambda x: x)\ng = jax.jit(\n    lambda y: y + 1)\n"
    jit = jit_of(called("jit__lambda", "<lambda>", 3), {FILE: source}.get)
    assert jit.line is not None
    assert (jit.line.number, jit.positional) == (2, ("y",))


def test_two_lambdas_on_a_line_are_told_by_their_columns() -> None:
    for column, parameter in ((24, "x"), (51, "y")):
        source = "f = jax.jit(lambda x:   x + 1); g = jax.jit(lambda y:   y * 2)\n"
        lambdas = called("jit__lambda", "<lambda>", 1)
        lambdas = replace(lambdas, frames=(lambdas.frames[0], replace(lambdas.frames[1], column=column)))
        assert jit_of(lambdas, {FILE: source}.get).positional == (parameter,), column


def test_static_arguments_are_seen_however_they_are_given() -> None:
    for options, expected in (("static_argnums=1", True), ("static_argnames=names", True), ("inline=True", False)):
        jit = jit_of(called(), {FILE: f"import jax\n{BODY}step = jax.jit(update, {options})"}.get)
        assert jit.has_static == expected, options


def test_without_a_source_nothing_is_claimed() -> None:
    for source in (None, "", "no python at all (", "x = 1\n"):
        jit = jit_of(called(), {FILE: source}.get)
        assert (jit.line, jit.call, jit.returns, jit.has_static) == (None, None, None, False), source


def test_the_line_of_return_is_told_if_there_is_one() -> None:
    assert jit_of(called(), {FILE: "import jax\n" + BODY}.get).returns == replace(
        jit_of(called(), {FILE: "import jax\n" + BODY}.get).line, number=3
    )  # type: ignore[type-var]
    two = "import jax\ndef update(params, x):\n    if x is None: return 0\n    return params\n"
    assert jit_of(called(), {FILE: two}.get).returns is None
