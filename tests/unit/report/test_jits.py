"""Where a function is jitted, as the user's source tells, and that line with another option."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.sim.toy import program, superstep
from tilestep.plan.steps import Frame, Program
from tilestep.report.advice.donation import donating
from tilestep.report.advice.jits import jit_of

FILE = "/home/me/train.py"
BODY = "def update(params, x):\n    return params + x\n"  # the second line of a source that has one line before it
SOURCES = {
    "import jax\n" + BODY + "step = jax.jit(update, backend='ipu')": (4, "jax.jit(update, backend='ipu', donate_argnames=('params',))"),
    "import jax\n" + BODY + "step = jax.jit(\n    update)": (4, "jax.jit(update, donate_argnames=('params',))"),
    "import jax\n" + BODY + "step = jit(partial(update), donate_argnames='x')": (
        4,
        "jit(partial(update), donate_argnames=('x', 'params'))",
    ),
    "@jax.jit\n" + BODY: (1, "import functools\n@functools.partial(jax.jit, donate_argnames=('params',))"),
    "import functools; import jax\n@jax.jit\n" + BODY: (2, "@functools.partial(jax.jit, donate_argnames=('params',))"),
    "import functools as ft; import jax\n@jax.jit\n" + BODY: (2, "@ft.partial(jax.jit, donate_argnames=('params',))"),
    "from functools import partial\n@jax.jit\n" + BODY: (2, "@partial(jax.jit, donate_argnames=('params',))"),
    "@functools.partial(jax.jit, inline=True)\n" + BODY: (
        1,
        "@functools.partial(jax.jit, inline=True, donate_argnames=('params',))",
    ),
    "import jax\n" + BODY + "a = jax.jit(update)\nb = jax.jit(update)": (2, "jax.jit(update, donate_argnames=('params',))"),  # which?
    "import jax\n" + BODY: (2, "jax.jit(update, donate_argnames=('params',))"),
    "import jax\n" + BODY + "step = jax.jit(other)": (2, "jax.jit(update, donate_argnames=('params',))"),
}


def called(name: str = "jit_update", function: str = "update", line: int = 3) -> Program:
    frames = (
        Frame(file=FILE, function="<module>", line=9, column=1, parent=0),
        Frame(file=FILE, function=function, line=line, column=5, parent=1),
    )
    return replace(program(replace(superstep(5), frame=2), name=name), frames=frames)


def test_the_line_that_jits_it_and_its_code_with_an_option() -> None:
    for source in SOURCES:
        line, code = SOURCES[source]
        jit = jit_of(called(), {FILE: source}.get)
        assert jit.line is not None, source
        assert (jit.line.number, donating(jit, ["params[0][1]", "params[1][0]"])) == (line, code), source


def test_a_lambda_is_told_by_its_line() -> None:
    source = "f = jax.jit(lambda x: x)\ng = jax.jit(\n    lambda y: y + 1)\n"
    jit = jit_of(called("jit__lambda", "<lambda>", 3), {FILE: source}.get)
    assert jit.line is not None
    assert (jit.line.number, jit.with_options({"inline": True})) == (2, "jax.jit(lambda y: y + 1, inline=True)")


def test_two_lambdas_on_a_line_are_told_by_their_columns() -> None:
    for column, code in ((24, "jax.jit(lambda x: x + 1, inline=True)"), (51, "jax.jit(lambda y: y * 2, inline=True)")):
        source = "f = jax.jit(lambda x:   x + 1); g = jax.jit(lambda y:   y * 2)\n"
        lambdas = called("jit__lambda", "<lambda>", 1)
        lambdas = replace(lambdas, frames=(lambdas.frames[0], replace(lambdas.frames[1], column=column)))
        assert jit_of(lambdas, {FILE: source}.get).with_options({"inline": True}) == code, column


def test_without_a_source_nothing_is_claimed() -> None:
    for source in (None, "", "no python at all (", "x = 1\n"):
        jit = jit_of(called(), {FILE: source}.get)
        assert (jit.line, jit.call, jit.returns) == (None, None, None), source
        assert jit.with_options({"inline": True}) == "jax.jit(update, inline=True)", source


def test_arguments_behind_a_star_are_donated_by_number() -> None:
    jit = jit_of(called(), {FILE: "import jax\ndef update(first, *args):\n    return args\n"}.get)
    assert donating(jit, ["args[0].mu", "args[2]"]) == "jax.jit(update, donate_argnums=(1, 3))"
    assert donating(jit, ["first", "args[0]"]) == "jax.jit(update, donate_argnums=(0, 1))"
    assert donating(jit, ["first"]) == "jax.jit(update, donate_argnames=('first',))"


def test_what_is_donated_by_number_is_joined_by_number() -> None:
    """With both options JAX donates an argument in its place only if it is named by its number."""
    for options, expected in (
        ("donate_argnums=0", "jax.jit(update, donate_argnums=(0, 1))"),
        ("donate_argnums=(-2,), inline=True", "jax.jit(update, donate_argnums=(0, 1), inline=True)"),
        ("donate_argnames=['params']", "jax.jit(update, donate_argnames=('params', 'x'))"),
        ("donate_argnums=(0,), donate_argnames='x'", "jax.jit(update, donate_argnums=(0, 1))"),
        ("donate_argnums=given", ""),
    ):
        jit = jit_of(called(), {FILE: f"import jax\n{BODY}step = jax.jit(update, {options})"}.get)
        assert donating(jit, ["x[0]"]) == expected, options


def test_places_of_a_partial_or_a_method_are_not_known() -> None:
    for given in ("partial(update)", "model.update"):
        jit = jit_of(called(), {FILE: f"import jax\n{BODY.replace('params', 'self')}step = jax.jit({given}, donate_argnums=0)"}.get)
        assert donating(jit, ["x"]) == ""


def test_the_line_of_return_is_told_if_there_is_one() -> None:
    assert jit_of(called(), {FILE: "import jax\n" + BODY}.get).returns == replace(
        jit_of(called(), {FILE: "import jax\n" + BODY}.get).line, number=3
    )  # type: ignore[type-var]
    two = "import jax\ndef update(params, x):\n    if x is None: return 0\n    return params\n"
    assert jit_of(called(), {FILE: two}.get).returns is None
