"""The code of findings: the program with it does what was promised, and code that nobody can write stays away."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.behaviour.advice.fault import dry, of_kind, profiled
from tilestep.report import Finding, Profile

NAMES = {"jax": jax, "jnp": jnp, "np": np, "Mesh": Mesh, "NamedSharding": NamedSharding, "PartitionSpec": PartitionSpec}


class Case(NamedTuple):
    """A program, and itself with a finding's code: each row of that stands in it, whatever comment is behind."""

    kind: str
    before: str
    after: str
    within: float = 0.02  # of the gain
    is_dry: bool = False  # nothing is computed


CASES = {
    "a jit in a loop": Case(
        "loads",
        """
x = np.ones((64, 64), np.float32)
for _ in range(8):
    x = jax.jit(lambda x: jnp.tanh(x))(x)
""",
        """
x = np.ones((64, 64), np.float32)
f = jax.jit(lambda x: jnp.tanh(x))
for _ in range(8):
    x = f(x)
""",
    ),
    "a static argument": Case(
        "loads",
        """
def scaled(x, n):
    return x * n
step = jax.jit(scaled, static_argnums=1)
x = np.ones(64, np.float32)
for n in range(2, 10):
    x = step(x, n)
""",
        """
def scaled(x, n):
    return x * n
step = jax.jit(scaled)
x = np.ones(64, np.float32)
for n in range(2, 10):
    x = step(x, np.asarray(n))
""",
    ),
    "a number of Python's": Case(
        "loads",
        """
step = jax.jit(lambda x, rate: x * rate)
x = np.ones(64, np.float32)
for n in range(8):
    rate = 0.1 if n % 2 else np.float32(0.1)
    x = step(x, rate)
""",
        """
step = jax.jit(lambda x, rate: x * rate)
x = np.ones(64, np.float32)
for n in range(8):
    rate = 0.1 if n % 2 else np.float32(0.1)
    x = step(x, np.float32(rate))
""",
    ),
    "several shapes": Case(
        "loads",
        """
predict = jax.jit(lambda x: jnp.tanh(x))
for n in range(6):
    y = predict(np.ones((64 + n, 64), np.float32))
""",
        """
predict = jax.jit(lambda x: jnp.tanh(x))
for n in range(6):
    x = np.ones((64 + n, 64), np.float32)
    x = np.pad(x, ((0, 69 - len(x)), (0, 0)))
    y = predict(x)
""",
        0.03,
    ),
    "a smaller last batch of images and labels": Case(
        "loads",
        """
train = jax.jit(lambda w, x, labels: w - 0.1 * jax.grad(lambda w: ((x @ w - labels) ** 2).mean())(w))
w, images, labels = np.ones(64, np.float32), np.ones((80, 64), np.float32), np.ones(80, np.float32)
for n in range(8):
    begin = n % 3 * 32
    w = train(w, images[begin:begin + 32], labels[begin:begin + 32])
""",
        """
train = jax.jit(lambda w, x, labels, mask: w - 0.1 * jax.grad(
    lambda w: jnp.where(mask, (x @ w - labels) ** 2, 0).sum() / mask.sum())(w))
w, images, labels = np.ones(64, np.float32), np.ones((80, 64), np.float32), np.ones(80, np.float32)
for n in range(8):
    begin = n % 3 * 32
    # to be written: train takes mask, too, and leaves what is added out of its sums:
    # jnp.where(mask, each, 0).sum() / mask.sum() for each.mean()
    x = images[begin:begin + 32]
    padded_labels = labels[begin:begin + 32]
    mask = np.arange(32) < len(x)
    x = np.pad(x, ((0, 32 - len(x)), (0, 0)))
    padded_labels = np.pad(padded_labels, ((0, 32 - len(padded_labels)),))
    w = train(w, x, padded_labels, mask)
""",
        0.03,
    ),
    "two functions by turns": Case(
        "loads",
        """
grow = jax.jit(lambda x: x * 1.5)
norm = jax.jit(lambda w: (w * w).sum())
x = np.ones((64, 64), np.float32)
for _ in range(6):
    x = grow(x)
    print(float(norm(x)))
""",
        """
grow = jax.jit(lambda x: x * 1.5)
norm = jax.jit(lambda w: (w * w).sum())
x = np.ones((64, 64), np.float32)
@jax.jit
def grow_and_norm(x):
    grow_result = grow(x)
    norm_result = norm(grow_result)
    return grow_result, norm_result
for _ in range(6):
    x, size = grow_and_norm(x)
    print(float(size))
""",
        0.05,
    ),
    "operations of set-up": Case(
        "loads",
        """
w = jnp.ones((64, 64)) * 0.5 + jnp.arange(64)
step = jax.jit(lambda w, x: w * x, donate_argnums=0)
for n in range(6):
    w = step(w, np.float32(n))
""",
        """
with jax.default_device(jax.devices('cpu')[0]):
    w = jnp.ones((64, 64)) * 0.5 + jnp.arange(64)
step = jax.jit(lambda w, x: w * x, donate_argnums=0)
for n in range(6):
    w = step(w, np.float32(n))
""",
    ),
    "copies of arrays of the host": Case(
        "loads",
        """
predict = jax.jit(lambda x: jnp.tanh(x))
for n in range(6):
    y = predict(jnp.asarray(np.full((64, 64), n, np.float32)))
""",
        """
predict = jax.jit(lambda x: jnp.tanh(x))
for n in range(6):
    y = predict(np.full((64, 64), n, np.float32))
""",
        0.03,
    ),
    "an argument of a pmap that comes without its sharding": Case(
        "loads",
        """
step = jax.pmap(lambda w, x: w - 0.1 * jax.lax.pmean(x, 'i'), axis_name='i', devices=jax.devices('ipu'), donate_argnums=0)
w = np.ones((4, 64), np.float32)
for n in range(6):
    w = step(w, np.full((4, 64), n, np.float32))
""",
        """
step = jax.pmap(lambda w, x: w - 0.1 * jax.lax.pmean(x, 'i'), axis_name='i', devices=jax.devices('ipu'), donate_argnums=0)
w = np.ones((4, 64), np.float32)
w = jax.device_put(w, NamedSharding(Mesh(np.array(jax.devices('ipu')), ('i',)), PartitionSpec('i')))
for n in range(6):
    w = step(w, np.full((4, 64), n, np.float32))
""",
        0.2,
    ),
    "short calls without a state": Case(
        "calls",
        """
add = jax.jit(lambda a, b: a + b)
for n in range(200):
    total = add(np.full(100, n, np.float32), np.full(100, n + 1, np.float32))
np.asarray(total)
""",
        """
add = jax.jit(lambda a, b: a + b)
many = jax.jit(lambda a, b: jax.lax.map(lambda each: add(each[0], each[1]), (a, b)))
totals = many(*[np.stack([np.full(100, n, np.float32) for n in range(200)])] * 2)
np.asarray(totals)
""",
        0.02,
    ),
    "short calls with a state": Case(
        "calls",
        """
def step(params, x):
    return {"w": params["w"] - 0.1 * (x @ params["w"]).mean(), "b": params["b"] * 0.5}
update = jax.jit(step)
params = {"w": np.ones(64, np.float32), "b": np.ones(3, np.float32)}
for n in range(200):
    params = update(params, np.full((8, 64), n, np.float32))
""",
        """
def step(params, x):
    return {"w": params["w"] - 0.1 * (x @ params["w"]).mean(), "b": params["b"] * 0.5}
update = jax.jit(step)
params = {"w": np.ones(64, np.float32), "b": np.ones(3, np.float32)}
many = jax.jit(lambda params, x: jax.lax.scan(lambda params, x: (update(params, x), None), params, x)[0], donate_argnames=('params',))
for n in range(2):
    params = many(params, np.stack([np.full((8, 64), n, np.float32)] * 100))
""",
        0.05,
    ),
    "so few short calls that the loop's own code weighs": Case(
        "calls",
        """
add = jax.jit(lambda a, b: a + b)
for n in range(96):
    total = add(np.full(100, n, np.float32), np.full(100, n + 1, np.float32))
np.asarray(total)
""",
        """
add = jax.jit(lambda a, b: a + b)
many = jax.jit(lambda a, b: jax.lax.map(lambda each: add(each[0], each[1]), (a, b)))
totals = many(*[np.stack([np.full(100, n, np.float32) for n in range(96)])] * 2)
np.asarray(totals)
""",
        0.05,
    ),
    "short calls whose results are read": Case(
        "calls",
        """
step = jax.jit(lambda w, x: (w * 0.9 + x, (w * x).sum()))
w = np.ones((64, 64), np.float32)
for n in range(100):
    w, loss = step(w, np.float32(n))
    float(loss)
""",
        """
step = jax.jit(lambda w, x: (w * 0.9 + x, (w * x).sum()))
w = np.ones((64, 64), np.float32)
many = jax.jit(lambda w, x: jax.lax.scan(lambda w, x: step(w, x), w, x), donate_argnames=('w',))
w, losses = many(w, np.ones(100, np.float32))
[float(loss) for loss in np.asarray(losses)]
""",
        0.02,
    ),
    "short calls with two states": Case(
        "calls",
        """
step = jax.jit(lambda w, m, x: (w - m, m * 0.9 + x.mean()), donate_argnums=(0, 1))
w, m = np.ones(256, np.float32), np.zeros(256, np.float32)
for n in range(200):
    w, m = step(w, m, np.full((8, 16), n, np.float32))
""",
        """
step = jax.jit(lambda w, m, x: (w - m, m * 0.9 + x.mean()), donate_argnums=(0, 1))
w, m = np.ones(256, np.float32), np.zeros(256, np.float32)
many = jax.jit(
    lambda w, m, x: jax.lax.scan(lambda state, x: (step(*state, x), None), (w, m), x)[0], donate_argnames=('w', 'm'))
for n in range(2):
    w, m = many(w, m, np.stack([np.full((8, 16), n, np.float32)] * 100))
""",
        0.05,
    ),
    "a state of a pmap that is not donated": Case(
        "donation",
        """
step = jax.pmap(lambda w, x: w - 0.1 * jax.lax.pmean(x, 'i'), axis_name='i', devices=jax.devices('ipu'))
w = np.ones((4, 512, 512), np.float32)
for n in range(30):
    w = step(w, np.full((4, 512, 512), n, np.float32))
""",
        """
step = jax.pmap(lambda w, x: w - 0.1 * jax.lax.pmean(x, 'i'), axis_name='i', devices=jax.devices('ipu'), donate_argnums=(0,))
w = np.ones((4, 512, 512), np.float32)
for n in range(30):
    w = step(w, np.full((4, 512, 512), n, np.float32))
""",
        0.05,
    ),
    "float32 where half would do": Case(
        "halves",
        """
def loss(weights, x):
    for w in weights:
        x = jnp.tanh(x @ w)
    return (x * x).mean()
@jax.jit
def step(weights, x):
    for _ in range(8):
        grads = jax.grad(loss)(weights, x)
        weights = [w - 0.1 * g for w, g in zip(weights, grads)]
    return weights
weights = [np.full((512, 512), 0.01, np.float32)] * 4
x = np.ones((2048, 512), np.float32)
for _ in range(3):
    weights = step(weights, x)
""",
        """
half = lambda tree: jax.tree.map(lambda each: each.astype(jnp.float16) if each.dtype == jnp.float32 else each, tree)
def loss(weights, x):
    weights, x = half((weights, x))
    for w in weights:
        x = jnp.tanh(x @ w)
    return (x * x).mean()
@jax.jit
def step(weights, x):
    for _ in range(8):
        grads = jax.grad(loss)(weights, x)
        weights = [w - 0.1 * g for w, g in zip(weights, grads)]
    return weights
weights = [np.full((512, 512), 0.01, np.float32)] * 4
x = np.ones((2048, 512), np.float32)
for _ in range(3):
    weights = step(weights, x)
""",
        0.25,
        is_dry=True,
    ),
    "a batch that a line says": Case(
        "products",
        """
BATCH_SIZE = 64
SAMPLES = 1024
@jax.jit
def step(w, x):
    for _ in range(24):
        w = w - 1e-3 * x.T @ jnp.tanh(x @ w)
    return w
w = np.ones((512, 512), np.float32)
for n in range(SAMPLES // BATCH_SIZE):
    w = step(w, np.full((BATCH_SIZE, 512), n, np.float32))
""",
        """
BATCH_SIZE = 512
SAMPLES = 1024
@jax.jit
def step(w, x):
    for _ in range(24):
        w = w - 1e-3 * x.T @ jnp.tanh(x @ w)
    return w
w = np.ones((512, 512), np.float32)
for n in range(SAMPLES // BATCH_SIZE):
    w = step(w, np.full((BATCH_SIZE, 512), n, np.float32))
""",
        0.25,
        is_dry=True,
    ),
}


def run(source: str, path: Path, *, is_dry: bool = False) -> Profile:
    path.write_text(source)
    scope: dict[str, Any] = {"__name__": "__main__", **NAMES}

    def program() -> None:
        exec(compile(source, str(path), "exec"), scope)  # what a user's file does

    return dry(program) if is_dry else profiled(program)


def coded(profile: Profile, kind: str) -> Finding:
    return next(finding for finding in of_kind(profile, kind) if finding.code)


@pytest.mark.parametrize("name", CASES)
def test_a_program_with_the_code_does_what_was_promised(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    before = run(case.before, tmp_path / "before.py", is_dry=case.is_dry)
    found = coded(before, case.kind)
    plain = case.after.replace(" ", "").replace("\n", "")
    rows = [row.partition("  # ")[0].strip() for row in found.code.splitlines()]
    assert [row for row in rows if row.replace(" ", "") not in plain] == [], found.code
    promised = 0 if found.gain is None else found.gain.cycles
    made = before.emulated_cycles - run(case.after, tmp_path / "after.py", is_dry=case.is_dry).emulated_cycles
    assert abs(made - promised) <= case.within * made, f"{found.headline}, but {made:,} of {before.emulated_cycles:,} cycles"


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ("grads = jax.lax.pmean(grads, 'i')", "grads = jax.lax.pmean(jax.tree.map(lambda each: each / 16, total), 'i')"),
        ("grads = jax.tree.map(lambda each: jax.lax.pmean(each, 'i'), grads)", ""),  # what it exchanges has no name here
        ("[grads] = [jax.lax.pmean(each, 'i') for each in [grads]]", ""),  # nor here
        ("tree = [grads]\n        [grads] = [jax.lax.pmean(each + 1, 'i') for each in tree]", ""),  # another sum
        ("[grads] = {k: jax.lax.pmean(each, 'i') for k, each in enumerate([grads])}.values()", ""),
        ("grads, _ = jax.lax.pmean(grads, 'i'), jax.lax.pmean(grads.sum(), 'i')", ""),  # the second is a loss
    ],
)
def test_a_sum_over_batches_is_exchanged_where_the_line_exchanges(row: str, code: str, tmp_path: Path) -> None:
    source = (
        f"def step(grads):\n    for _ in range(20):\n        {row}\n    return grads\n"
        "step = jax.pmap(step, axis_name='i', devices=jax.devices('ipu'))\nx = np.ones((4, 512, 512), np.float32)\n"
        "for _ in range(60):\n    x = step(x)\n"
    )
    [found] = of_kind(run(source, tmp_path / "train.py", is_dry=True), "collectives")
    assert found.code.splitlines()[3:] == [code][: bool(code)]


EXCHANGING = """
def step(weights, x):
    own = [jax.lax.pcast(w, 'i', to='varying') for w in weights]
    def gradients(x):
        return jax.grad(lambda weights: jnp.tanh(x @ weights[0] @ weights[1]).mean())(own)
    GRADS
    grads = [jax.lax.pmean(w, 'i') for w in grads]
    return [w - g for w, g in zip(weights, grads)]
mesh = Mesh(np.array(jax.devices('ipu')), ('i',))
step = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(PartitionSpec(), PartitionSpec(SPEC)), out_specs=PartitionSpec()), donate_argnums=0)
weights = [np.full((256, 1024), 0.01, np.float32), np.full((1024, 512), 0.02, np.float32)]
weights = jax.device_put(weights, NamedSharding(mesh, PartitionSpec()))
"""


def test_a_list_of_gradients_is_exchanged_after_several_batches_with_the_code(tmp_path: Path) -> None:
    before = EXCHANGING.replace("GRADS", "grads = gradients(x)").replace("SPEC", "'i'")
    steps = "for _ in range(60):\n    weights = step(weights, np.ones((8, 256), np.float32))\n"
    [found] = of_kind(run(before + steps, tmp_path / "before.py", is_dry=True), "collectives")
    _, _, scan, exchange = found.code.splitlines()
    count = int(found.edit.split()[1])
    assert exchange == f"grads = [jax.lax.pmean(w / {count}, 'i') for w in total]"
    assert found.code.startswith(
        f"# to be written: gradients(batch), what the line exchanges, of one batch; batches, {count} of them, stacked;"
    )
    own = "zeros = jax.tree.map(jnp.zeros_like, own)\n    batches = x\n    "
    after = EXCHANGING.replace("GRADS", own + scan).replace("grads = [jax.lax.pmean(w, 'i') for w in grads]", exchange)
    x = np.random.default_rng(0).normal(size=(count, 8, 256)).astype(np.float32)
    one, several = {**NAMES}, {**NAMES}
    exec(before, one)
    exec(after.replace("SPEC", "None, 'i'"), several)
    weights = [np.asarray(each) for each in one["weights"]]
    of_each = [one["step"](weights, batch) for batch in x]
    for expected, made in zip(zip(*of_each, strict=True), several["step"](weights, x), strict=True):
        np.testing.assert_allclose(made, np.mean(expected, axis=0), rtol=1e-5)


def test_a_function_that_takes_more_than_its_parameters_is_not_told_to_be_in_half(tmp_path: Path) -> None:
    source = (
        "@jax.jit\ndef step(w, x):\n    for _ in range(24):\n        w = w - 1e-3 * jax.grad(lambda w: (jnp.tanh(x @ w) ** 2).mean())(w)\n"
        "    return w\nw = np.ones((512, 512), np.float32)\nfor _ in range(3):\n    w = step(w, np.ones((2048, 512), np.float32))\n"
    )
    [found] = of_kind(run(source, tmp_path / "train.py", is_dry=True), "halves")
    assert found.code == ""


@pytest.mark.parametrize(
    "row", ["x = np.full((64, 512), n, np.float32)", "BATCH, OTHER_BATCH = 64, 64", "BATCH = 64\nOTHER_BATCH = 64", "MICROBATCHES = 64"]
)
def test_a_batch_that_no_line_says_or_several_has_no_code(row: str, tmp_path: Path) -> None:
    body = "@jax.jit\ndef step(w, x):\n    for _ in range(24):\n        w = w - 1e-3 * x.T @ jnp.tanh(x @ w)\n    return w\n"
    steps = "w = np.ones((512, 512), np.float32)\nfor n in range(12):\n    w = step(w, np.full((64, 512), n, np.float32))\n"
    source = f"n = 1\n{row}\n{body}{steps}"
    [found] = of_kind(run(source, tmp_path / "train.py", is_dry=True), "products")
    assert found.code == ""


def test_the_leaves_of_a_tree_of_a_pmap_are_donated_as_their_argument_is(tmp_path: Path) -> None:
    source = (
        "step = jax.pmap(lambda state, x: {k: w - jax.lax.pmean(x, 'i') for k, w in state.items()}, axis_name='i', "
        "devices=jax.devices('ipu'))\nstate = {k: np.ones((4, 256, 256), np.float32) for k in 'ab'}\n"
        "for n in range(20):\n    state = step(state, np.full((4, 256, 256), n, np.float32))\n"
    )
    found = coded(run(source, tmp_path / "train.py"), "donation")
    assert found.edit == "donate state"
    assert found.code.endswith("donate_argnums=(0,))")


def test_two_pmaps_of_a_file_have_no_code(tmp_path: Path) -> None:
    one = "jax.pmap(lambda w, x: w - x, devices=jax.devices('ipu'))"
    steps = "w = np.ones((4, 512, 512), np.float32)\nfor n in range(20):\n    w = step(w, np.full(w.shape, n, w.dtype))\n"
    source = f"first, step = {one}, {one}\n{steps}"
    found = of_kind(run(source, tmp_path / "train.py"), "donation")
    assert [(finding.edit, finding.code) for finding in found] == [("donate flat_args[0]", "")]


@pytest.mark.parametrize(
    "source",
    [  # long steps; an evaluation between any two; too few calls
        "step = jax.jit(lambda x: jax.lax.fori_loop(0, 20_000, lambda _, x: x * 1.01, x))\nfor n in range(20):\n    y = step(X + n)\n",
        "step, test = jax.jit(lambda w, x: w + x), jax.jit(lambda w: w.sum())\nfor n in range(20):\n    loss = test(step(X, X + n))\n",
        "step = jax.jit(lambda x: x + 1)\nfor n in range(4):\n    y = step(X + n)\n",
    ],
)
def test_calls_that_are_long_or_few_or_have_others_between_them_need_no_loop(source: str, tmp_path: Path) -> None:
    assert of_kind(run(f"X = np.ones(64, np.float32)\n{source}", tmp_path / "train.py", is_dry=True), "calls") == []


def test_a_lambda_around_the_program_is_not_taken_for_its_function(tmp_path: Path) -> None:
    case = CASES["short calls whose results are read"]
    within = "\n".join(f"    {line}" for line in case.before.strip().splitlines())
    profile = run(f"def main():\n{within}\nstart = lambda: main()\nstart()\n", tmp_path / "train.py", is_dry=case.is_dry)
    assert "jax.lax.scan(lambda w, x: step(w, x), w, x)" in coded(profile, case.kind).code


BATCHES = """
train = jax.jit(lambda w, x, labels: w - 0.1 * jax.grad(lambda w: ((x @ w - labels) ** 2).mean())(w))
w, images, truth = np.ones(64, np.float32), np.random.default_rng(0).normal(size=(80, 64)).astype(np.float32), np.ones(80, np.float32)
for begin in (0, 32, 64) * 3:
    CALL
"""


def test_what_is_padded_with_the_code_trains_as_before(tmp_path: Path) -> None:
    before = BATCHES.replace("CALL", "w = train(w, images[begin:begin + 32], truth[begin:begin + 32])")
    found = coded(run(before, tmp_path / "before.py"), "loads")
    assert found.edit == "pad x, labels of jit__lambda"
    after = BATCHES.replace("CALL", found.code.replace("\n", "\n    ")).replace("x, labels:", "x, labels, mask:")
    after = after.replace("((x @ w - labels) ** 2).mean()", "jnp.where(mask, (x @ w - labels) ** 2, 0).sum() / mask.sum()")
    one, other = {**NAMES}, {**NAMES}
    exec(before, one)
    exec(after, other)
    np.testing.assert_allclose(one["w"], other["w"], rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("x, y = images[:n], truth[:n]\n    w = train(w, x, labels=y)", "w = train(w, x, labels=y, mask=mask)"),
        ("w = [train(w, images[:n], truth[:n]) for _ in 'a'][0]", ""),  # w changes inside
        ("w = train(w, *(images[:n], truth[:n]))", ""),  # what is given has no names
    ],
)
def test_what_is_padded_is_what_the_call_names(call: str, code: str, tmp_path: Path) -> None:
    source = BATCHES.replace("CALL", call).replace("begin in (0, 32, 64)", "n in (32, 32, 16)")
    [found] = of_kind(run(source, tmp_path / "train.py", is_dry=True), "loads")
    assert found.edit == "pad x, labels of jit__lambda"
    assert found.code.splitlines()[-1:] == [code][: bool(code)]


def test_an_argument_that_keeps_its_shape_is_not_padded(tmp_path: Path) -> None:
    source = BATCHES.replace("CALL", "w = train(w, images[:n], truth[:1])").replace("begin in (0, 32, 64)", "n in (32, 32, 16)")
    [found] = of_kind(run(source, tmp_path / "train.py", is_dry=True), "loads")
    assert found.edit == "pad x of jit__lambda"
    assert "labels" not in found.code
