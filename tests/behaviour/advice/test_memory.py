"""What frees memory of a tile frees about as many bytes as the finding says."""

import re
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import tilestep
from tests.behaviour.advice.fault import dry, first_of, of_kind
from tilestep.advice import Finding
from tilestep.advice.memory.remedies import did_not_fit
from tilestep.views.profile import Profile

LAYERS, WIDTH = 8, 1024


@cache
def descending(*, way: str = "") -> Profile:
    """A step with momentum on parameters, in a dry run, with one of the ways to need less memory. Several tests look at the same."""

    def layer(x: Any, w: Any) -> tuple[Any, None]:
        return jnp.tanh(jnp.tanh(x @ w) * 2), None

    def step(params: Any, momentum: Any, x: Any) -> Any:
        used = jax.checkpoint(layer) if way == "recompute" else layer
        gradients = jax.grad(lambda params: (jax.lax.scan(used, x, params)[0] ** 2).sum())(params)
        inside = jax.device_put(momentum, jax.memory.Space.Device) if way == "offload" else momentum
        inside = 0.9 * inside + gradients
        after = jax.device_put(inside, jax.memory.Space.Host) if way == "offload" else inside
        return params - 1e-3 * inside, after

    with tilestep.profile() as recording, tilestep.dry_run():
        mesh = Mesh(np.array(jax.devices("ipu")[: 4 if way in ("divide", "spread") else 1]), ("x",))
        columns = P(None, None, "x") if way == "divide" else P()
        chip = NamedSharding(mesh, columns)
        away = NamedSharding(mesh, columns, memory_kind="pinned_host" if way == "offload" else "device")
        params = jax.device_put(np.ones((LAYERS, WIDTH, WIDTH), np.float32), chip)
        momentum = jax.device_put(np.ones((LAYERS, WIDTH, WIDTH), np.float32), away)
        x = jax.device_put(np.ones((4096, WIDTH), np.float32), NamedSharding(mesh, P("x") if way == "spread" else P()))
        jitted = jax.jit(step, out_shardings=(chip, away))
        jax.block_until_ready(jitted(params, momentum, x))
    return recording.profile


def promised(finding: Finding, words: str) -> int:
    """Bytes of a tile that the sentence promises for one way."""
    found = re.search(rf"{words}[^(]*(?:\([^)]*\))? \(-([\d.]+) (KiB|MiB|B) a tile(?: or more)?[,)]", finding.text)
    assert found is not None, finding.text
    return round(float(found[1]) * {"B": 1, "KiB": 1024, "MiB": 1024 * 1024}[found[2]])


WAYS = {
    "offload": ("momentum in pinned_host", 0.25),
    "recompute": (r"jax\.checkpoint", 0.25),
    "divide": ("divided: params along axis 2, momentum along axis 2 over 4 IPUs", 0.25),
    "spread": ("the batch divided: x along axis 0 over 4 IPUs", 0.25),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_way_out_frees_what_was_promised(way: str) -> None:
    before, after = descending(), descending(way=way)
    finding = first_of(before)
    assert finding.kind == "memory"
    assert finding.urgent
    words, within = WAYS[way]
    made = before.programs[0].peak_tile_bytes - after.programs[0].peak_tile_bytes
    assert made > 0
    if way == "divide":  # the partitioner divides what is computed of them, too
        assert "over 4 IPUs (-33.4 KiB a tile or more)" in finding.text
        assert "known to be enough" not in finding.text  # because others are
        assert promised(finding, words) <= made
    else:
        assert abs(promised(finding, words) - made) <= within * made, (finding.text, made)
    assert way == "offload" or not re.search(words, "".join(full.text for full in of_kind(after, "memory")))
    assert "in a dry run this is no error" in finding.text
    assert "a batch of " in finding.text


def test_a_dry_run_says_what_a_refusal_says_of_what_would_make_it_fit() -> None:
    profile = descending()
    finding, history = first_of(profile), profile.history
    assert history is not None
    key = profile.programs[0].key
    refused = did_not_fit(history.programs[key], profile.sources[key], history.machine)
    assert refused is not None
    ways = [found.text.partition("What frees some: ")[2] for found in (finding, refused)]
    assert ways[0] == ways[1] != ""
    assert (finding.edit, finding.gain) == (refused.edit, refused.gain)


def trained(params: Any, x: Any) -> Any:
    """A step of which parameters and their gradients fill the tiles."""
    gradients = jax.grad(lambda params: (jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, params)[0] ** 2).sum())(params)
    return params - 1e-3 * gradients


DONATING = {
    "a training": (trained, ((64, WIDTH, WIDTH), (256, WIDTH))),
    "in place": (lambda x: x * 2, ((WIDTH, WIDTH),)),
    "copied": (lambda x: x @ x, ((WIDTH, WIDTH),)),
    "read beside": (lambda x, y: (y @ y, x.sum()), ((WIDTH, WIDTH), (WIDTH, WIDTH))),
}


@pytest.mark.parametrize("name", DONATING)
def test_donation_frees_no_memory_and_is_not_advised_for_it(name: str) -> None:
    function, shapes = DONATING[name]

    def called(donated: tuple[int, ...]) -> Profile:
        with tilestep.profile() as recording, tilestep.dry_run():
            given = jax.device_put([np.ones(shape, np.float32) for shape in shapes], jax.devices("ipu")[0])
            jax.block_until_ready(jax.jit(function, donate_argnums=donated)(*given))
        return recording.profile

    before, after = called(()), called((0,))
    assert before.programs[0].not_donated
    assert after.programs[0].peak_tile_bytes > before.programs[0].peak_tile_bytes * 0.99
    assert not [finding.text for finding in of_kind(before, "memory") if "donat" in finding.text]


def test_an_operation_outside_of_jit_that_does_not_fit_fits_in_the_function_that_uses_it() -> None:
    def made(*, inside: bool) -> Profile:
        with tilestep.profile() as recording, tilestep.dry_run():
            if inside:
                jax.block_until_ready(jax.jit(lambda: jnp.zeros((20_000, 20_000)).sum())())
            else:
                jax.block_until_ready(jax.jit(lambda x: x.sum())(jnp.zeros((20_000, 20_000))))
        return recording.profile

    outside = of_kind(made(inside=False), "memory")
    assert outside[-1].text.startswith("program jit_broadcast_in_dim, a single operation outside of jit at test_memory.py:")
    assert of_kind(made(inside=True), "memory") == []


def test_what_makes_weights_is_told_neither_to_recompute_nor_to_take_a_smaller_batch() -> None:
    made = jax.jit(lambda key: jax.random.normal(key, (24, 4096, 4096)))
    [found, *_] = dry(lambda: made(jax.random.key(0))).findings
    assert found.urgent
    assert "Try: arrays divided over more IPUs (jax.sharding), or a smaller dtype." in found.text
