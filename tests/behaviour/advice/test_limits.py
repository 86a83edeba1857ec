"""What limits a program, said so that who follows it saves emulated time; and what is said of programs on the whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback, pallas
from jax.experimental.pallas.tpu import InterpretParams
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.behaviour.advice.fault import dry, of_kind, profiled
from tests.in_turn import python
from tilestep.train import repeat
from tilestep.views.profile import Profile

DATA = np.ones((4096, 256), np.float32)


def told(profile: Profile) -> str:
    return "\n".join(finding.text for finding in profile.findings)


def shuffling(dtype: Any) -> Callable[[], Any]:
    """Rows that change tiles."""
    rows = np.arange(4096)[::-1].copy()
    return lambda: jax.jit(lambda x: jax.lax.fori_loop(0, 1000, lambda _, x: x[rows], x))(np.ones((4096, 512), dtype))


def summing(dtype: Any) -> Callable[[], Any]:
    """Gradients that all IPUs add up."""

    def body(x: Any) -> Any:
        return jax.lax.fori_loop(0, 250, lambda _, x: jax.lax.pmean(x, "data") * 0.5, x)

    def program() -> Any:
        mesh = Mesh(np.array(jax.devices("ipu")), ("data",))
        added = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False))
        return added(jax.device_put(np.ones((512, 512), dtype), NamedSharding(mesh, P())))

    return program


def summing_parts(count: int) -> Callable[[], Any]:
    """The same bytes between IPUs, in so many exchanges."""

    def body(x: Any) -> Any:
        return jax.lax.fori_loop(0, 1000, lambda _, x: jax.lax.map(lambda part: jax.lax.pmean(part, "data"), x), x)

    def program() -> Any:
        mesh = Mesh(np.array(jax.devices("ipu")), ("data",))
        added = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False))
        return added(jax.device_put(np.ones((count, 64 // count), np.float32), NamedSharding(mesh, P())))

    return program


def batches(size: int) -> Callable[[], Any]:
    """10,000 x 8 samples, in batches of a size."""
    steps = 8 * 10_000 // size
    return lambda: jax.jit(lambda x: jax.lax.fori_loop(0, steps, lambda _, x: x[::-1], x))(np.ones((size, 16), np.float32))


def calling(times: int) -> Callable[[], Any]:
    def body(_: Any, x: Any) -> Any:
        io_callback(lambda _: None, None, x)
        return x * 2

    return lambda: jax.jit(lambda x: jax.lax.fori_loop(0, times, body, x))(np.ones(1000, np.float32))


def offloading(times: int) -> Callable[[], Any]:
    """A value in pinned_host that a program uses so many times."""

    def program() -> Any:
        away = jax.device_put(DATA, NamedSharding(Mesh(np.array(jax.devices("ipu")[:1]), ("x",)), P(), memory_kind="pinned_host"))

        def body(k: Any, x: Any) -> Any:
            part = jax.lax.dynamic_index_in_dim(away_argument[0], k, keepdims=False)
            return x + jax.device_put(part, jax.memory.Space.Device)

        away_argument: list[Any] = []

        def used(away: Any, x: Any) -> Any:
            away_argument[:] = [away]
            return jax.lax.fori_loop(0, times, body, x)

        return jax.jit(used)(away, np.ones(256, np.float32))

    return program


Case = tuple[Callable[[], Any], Callable[[], Any], str]


Case = tuple[Callable[[], Any], Callable[[], Any], str]
QUICKER: dict[str, Case] = {  # what limits a program may still do so afterwards
    "exchange": (
        shuffling(np.float32),
        shuffling(np.float16),
        r"limited by exchange \(\d+ %\): move less between tiles \(.*smaller dtypes",
    ),
    "sync": (batches(8), batches(1000), r"limited by sync \(\d+ %\): its operations are too small \(a larger batch"),
    "exchange between IPUs": (
        summing(np.float32),
        summing(np.float16),
        r"exchange between IPUs \(9\d %\): send less between IPUs \(smaller dtypes",
    ),
    "sync between IPUs": (summing_parts(16), summing_parts(1), r"all-reduce, limited by sync \(\d+ %\): its exchanges are too small"),
    "host": (calling(100), calling(20), r"host call, limited by the host link \(100 %\): it stops for the host"),
    "pinned_host": (offloading(1000), offloading(100), r"pinned_host, limited by values in pinned_host .*use them less often"),
}


DRY = ("exchange", "exchange between IPUs", "sync between IPUs")  # loops over large arrays; a dry run takes the same emulated time


@pytest.mark.slow
def test_a_sentence_that_is_followed_saves_emulated_time() -> None:
    for name, (before, after, sentence) in QUICKER.items():
        found, better = ((dry if name in DRY else profiled)(program) for program in (before, after))
        assert re.search(sentence, told(found)), (name, told(found))
        assert better.emulated_cycles < found.emulated_cycles, name


@pytest.mark.slow
def test_a_loop_is_named_by_its_group() -> None:
    def program(steps: int) -> Profile:
        return dry(lambda: repeat(steps, lambda w: jnp.tanh(w @ w), np.ones((64, 64), np.float32)))

    few, many = program(100), program(100_000)
    assert few.steady is not None
    assert (few.steady.label, few.steady.steps) == ("the loop over lambda", 100)
    [found] = of_kind(few, "set-up")
    assert "Once warm, a step of the loop over lambda takes" in found.text
    assert of_kind(many, "fixed") == of_kind(many, "set-up") == []


@pytest.mark.slow
def test_dividing_arrays_over_ipus_that_were_asked_for_saves_emulated_time() -> None:
    code = """
import jax, numpy as np, tilestep
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from tilestep.advice import findings
for count in (1, 16):
    mesh = Mesh(np.array(jax.devices("ipu")[:count]), ("x",))
    with tilestep.profile() as profile, tilestep.dry_run():
        x = jax.device_put(np.ones((4096, 512), np.float16), NamedSharding(mesh, P("x")))
        w = jax.device_put(np.ones((512, 512), np.float16), NamedSharding(mesh, P()))
        jax.block_until_ready(jax.jit(lambda w, x: jax.lax.fori_loop(0, 20000, lambda _, x: x @ w, x))(w, x))
    [*_, last] = findings(profile.profile)
    print(profile.emulated_cycles, last.kind == "unused", last.text)
"""
    out = python(code, JAX_PLATFORMS="cpu,ipu", JAX_IPU_DEVICE_COUNT="16").stdout.splitlines()
    [(one, told_so, text), (all_of_them, told_again, _)] = [line.split(" ", 2) for line in out]
    assert (told_so, told_again) == ("True", "False")
    assert text.startswith("1 of 16 IPUs was used. Divide arrays over all of them (jax.sharding)")
    assert int(all_of_them) < int(one)


def test_a_kernel_of_pallas_that_is_interpreted_is_told_as_such_and_limits_nothing() -> None:
    def kernel(x: Any, out: Any) -> None:
        out[...] = x[...] * 2

    def program(interpret: Any) -> Callable[[], Any]:
        shape = jax.ShapeDtypeStruct((8, 128), jnp.float32)
        doubled = jax.jit(lambda x: pallas.pallas_call(kernel, out_shape=shape, interpret=interpret)(x))
        return lambda: [doubled(np.full((8, 128), number, np.float32)) for number in range(6)]

    found, plain = profiled(program(InterpretParams())), profiled(program(True))
    [told_so] = of_kind(found, "fallback")
    assert told_so.text.startswith("jit__lambda interprets a Pallas kernel at test_limits.py:")
    assert told_so.text.endswith("are an interpreter's, and no kernel's on an IPU.")
    assert of_kind(found, "limit") == []
    assert "Pallas" not in told(plain)
