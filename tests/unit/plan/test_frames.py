"""Steps and values know the line of source that they come from, also behind JAX's transformations."""

import linecache
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from tests.golden.clean_hlo import clean_hlo
from tilestep.machine import load_machine
from tilestep.plan import Branch, Frame, Liveness, Loop, Program, Series, lower, lower_in_detail, user_frame
from tilestep.plan.frames import Frames, rank_of_file, stack
from tilestep.plan.serialized import dump_program, load_program
from tilestep.program import parse_hlo

MACHINE = load_machine("bow-2000")
X, W = jax.ShapeDtypeStruct((64, 128), jnp.float32), jax.ShapeDtypeStruct((128, 128), jnp.float32)


def planned(function: Callable[..., Any], *arguments: Any) -> tuple[Program, Liveness]:
    module = parse_hlo(clean_hlo(jax.jit(function).lower(*arguments), with_lines=True))
    program, detail = lower_in_detail(module, MACHINE, name="f", num_ipus=1)
    assert program == lower(module, MACHINE, name="f", num_ipus=1)
    assert load_program(dump_program(program)) == program
    return program, detail


def leaves(program: Program) -> list[Any]:
    return [node for node in nodes(program.body) if not isinstance(node, Loop | Branch)]


def nodes(node: Any) -> Iterator[Any]:
    match node:
        case Series(nodes=inner):
            for child in inner:
                yield from nodes(child)
        case Loop(body=body):
            yield node
            yield from nodes(body)
        case Branch(arms=arms):
            yield node
            for arm in arms:
                yield from nodes(arm)
        case _:
            yield node


def source(program: Program, frame: int) -> str:
    """The text of the user's line."""
    line = program.frames[user_frame(program.frames, frame) - 1]
    assert line.file == __file__
    return linecache.getline(line.file, line.line).strip()


def layer(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w)


def loss(w: jax.Array, x: jax.Array) -> jax.Array:
    h = layer(w, x)
    return jnp.sum(h * h)


@jax.custom_vjp
def doubled(x: jax.Array) -> jax.Array:
    return x * 2


def doubled_forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return doubled(x), x


def doubled_backward(x: jax.Array, g: jax.Array) -> tuple[jax.Array]:
    return (jnp.sin(x) * g,)


doubled.defvjp(doubled_forward, doubled_backward)


def with_custom_gradient(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.sum(doubled(x @ w))


def scanned(w: jax.Array, x: jax.Array) -> jax.Array:
    def step(h: jax.Array, _: None) -> tuple[jax.Array, None]:
        return jnp.tanh(h @ w), None

    return jax.lax.scan(step, x, None, length=3)[0]


def with_loop(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.sum(scanned(w, x)) + loss(w, x)


def activated(w: jax.Array, x: jax.Array) -> jax.Array:
    return jax.nn.softmax(jax.nn.gelu(x @ w))


def updated(w: jax.Array, x: jax.Array) -> Any:
    optimizer = optax.adam(1e-3)
    gradients = jax.grad(loss)(w, x)
    updates, _ = optimizer.update(gradients, optimizer.init(w))
    return optax.apply_updates(w, updates)


DOT, SUM = "return jnp.tanh(x @ w)", "return jnp.sum(h * h)"


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (loss, {DOT, SUM}),
        (lambda w, x: jax.jvp(loss, (w, x), (w, x)), {DOT, SUM}),
        (jax.grad(loss), {DOT}),
        (lambda w, x: jax.vmap(loss, in_axes=(None, 0))(w, x[None]), {DOT, SUM}),
        (jax.grad(with_custom_gradient), {"return jnp.sum(doubled(x @ w))"}),
        (scanned, {"return jnp.tanh(h @ w), None", "return jax.lax.scan(step, x, None, length=3)[0]"}),
        (activated, {"return jax.nn.softmax(jax.nn.gelu(x @ w))"}),
        (updated, {DOT, "updates, _ = optimizer.update(gradients, optimizer.init(w))"}),
    ],
    ids=["plain", "jvp", "grad", "vmap", "custom_vjp", "scan", "jax.nn", "optax"],
)
def test_every_step_of_the_user_leads_to_a_line_of_the_user(function: Callable[..., Any], lines: set[str]) -> None:
    program, detail = planned(function, W, X)
    named = [node for node in nodes(program.body) if node.scope]
    assert all(node.frame for node in named)
    assert {source(program, node.frame) for node in named} == lines
    products = [source(program, node.frame) for node in named if node.name.startswith("dot")]
    assert products
    assert all("@" in line for line in products)
    assert all(life.frame == 0 for life in detail.lives if life.category == "argument")
    assert {source(program, life.frame) for life in detail.lives if life.category == "temporary" and life.frame} <= {*lines, SUM}


def test_a_line_is_told_with_its_callers_up_to_the_outermost() -> None:
    program, _ = planned(jax.grad(loss), W, X)
    (product, *_) = [node for node in nodes(program.body) if node.name.startswith("dot")]
    assert [program.frames[number - 1].function for number in stack(program.frames, product.frame)][:2] == ["layer", "loss"]
    line = program.frames[product.frame - 1]
    assert linecache.getline(__file__, line.line)[line.column - 1 :].startswith("x @ w")


def test_only_lines_that_are_used_are_kept_callers_before_what_they_call() -> None:
    program, detail = planned(jax.grad(loss), W, X)
    used = {node.frame for node in nodes(program.body)} | {life.frame for life in detail.lives}
    assert {number for frame in used for number in stack(program.frames, frame)} == set(range(1, len(program.frames) + 1))
    assert all(frame.parent <= index for index, frame in enumerate(program.frames))


def test_a_text_without_lines_gives_a_plan_without_lines() -> None:
    program = lower(parse_hlo(clean_hlo(jax.jit(loss).lower(W, X))), MACHINE, name="f", num_ipus=1)
    assert program.frames == ()
    assert all(node.frame == 0 for node in nodes(program.body))


def test_lines_alone_change_no_cycle_and_no_byte() -> None:
    lowered = jax.jit(jax.grad(with_loop)).lower(W, X)
    with_lines, without = (
        lower(parse_hlo(clean_hlo(lowered, with_lines=with_lines)), MACHINE, name="f", num_ipus=1) for with_lines in (True, False)
    )
    assert with_lines.memory == without.memory
    assert [replace(node, frame=0) for node in leaves(with_lines)] == leaves(without)


def frame(file: str, parent: int = 0) -> Frame:
    return Frame(file=file, function="f", line=1, column=0, parent=parent)


def test_numbers_out_of_the_table_are_unknown_and_circles_end() -> None:
    frames = Frames({1: frame("a.py", parent=2), 2: frame("b.py", parent=1), 3: frame("c.py", parent=9), 4: frame("d.py", parent=4)})
    assert [frames.number(each) for each in (0, 7, 1, 2, 3, 4)] == [0, 0, 2, 1, 3, 4]
    assert [(each.file, each.parent) for each in frames.kept] == [("b.py", 0), ("a.py", 1), ("c.py", 0), ("d.py", 0)]
    circle = (frame("/lib/python3.12/a.py", parent=2), frame("/lib/python3.12/b.py", parent=1))
    assert stack(circle, 1) == [1, 2]
    assert [user_frame(circle, each) for each in (-1, 0, 1, 3)] == [0, 0, 1, 0]


VENV = "/home/me/.venv/lib/python3.12/site-packages"


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        (["/home/me/train.py"], "/home/me/train.py"),
        ([f"{VENV}/jax/_src/lax/lax.py", "/home/me/train.py", "/home/me/main.py"], "/home/me/train.py"),
        ([f"{VENV}/optax/_src/transform.py", f"{VENV}/tilestep/train/loop/loop.py", "train.py"], "train.py"),
        (
            ["/me/tilestep/src/tilestep/train/loop/loop.py", "/me/src/tilestep/examples/mnist.py"],
            "/me/src/tilestep/examples/mnist.py",
        ),
        (["/usr/lib/python3.12/functools.py", "<string>"], "<string>"),
        (["/home/me/jax/jax/_src/lax/lax.py", "/home/me/jax/train.py"], "/home/me/jax/train.py"),
        ([f"{VENV}/jax/nn/functions.py", f"{VENV}/mymodels/net.py", f"{VENV}/flax/linen.py"], f"{VENV}/mymodels/net.py"),
        ([f"{VENV}/jax/_src/api.py", "<frozen runpy>", ""], None),
    ],
)
def test_the_line_of_the_user_is_the_innermost_outside_of_installed_packages(files: list[str], chosen: str | None) -> None:
    frames = [frame(file, parent=index + 2 if index + 1 < len(files) else 0) for index, file in enumerate(files)]
    found = user_frame(frames, 1)
    assert (frames[found - 1].file if found else None) == chosen


def test_a_package_that_lists_a_file_wrote_it_in_whatever_folder(tmp_path: Path) -> None:
    # As `pip install --target FOLDER` leaves it, with the user's own files beside the packages.
    listed = ["plots/draw.py,sha256=x,7", '"plots/a, b.py",sha256=x,7', "jax/numpy.py,,", "plots-1.0.dist-info/RECORD,,"]
    (tmp_path / "plots-1.0.dist-info").mkdir()
    (tmp_path / "plots-1.0.dist-info" / "RECORD").write_text("\n".join(listed))
    (tmp_path / "broken-1.0.dist-info").mkdir()
    own = [rank_of_file(str(tmp_path / name)) for name in ("plots/draw.py", "plots/a, b.py", "jax/numpy.py", "train.py", "plots/mine.py")]
    assert (own, rank_of_file("plots/draw.py"), rank_of_file(str(tmp_path / "sub/plots/draw.py"))) == ([1, 1, 0, 2, 2], 2, 2)
