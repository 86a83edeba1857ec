"""Counters of data-dependent loops and branches: on XLA:CPU, against counts made in Python."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.compiler import get_compile_options

from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.programs.counters import add_counters, mark_sites


def count(function: Callable[..., Any], *arguments: Any, sites: Callable[[int], frozenset[int]] = lambda n: frozenset(range(n))) -> Any:
    """(what the function gives, {(site, arm): times}) of a run with counters."""
    text = jax.jit(function).lower(*arguments).as_text()
    devices = jax.devices("cpu")[:1]
    client = devices[0].client
    with compat.make_context() as context:
        module = compat.parse_program(text.encode(), context)
        found = len(mark_sites(module))
        keys = add_counters(module, sites(found))
        module.operation.verify()
        executable = compat.compile_module(client, module, devices, get_compile_options(1, 1, device_assignment=np.array([[0]])), [])
    inputs = [compat.put(np.asarray(a), devices[0], "device") for a in jax.tree.leaves(arguments)]
    outputs = [np.asarray(column[0]) for column in executable.execute_sharded(inputs).disassemble_into_single_device_arrays()]
    plain = outputs[: len(outputs) - len(keys)]
    return plain, {key: int(value) for key, value in zip(keys, outputs[len(plain) :], strict=True)}


def test_a_loop_counts_its_trips() -> None:
    (result,), times = count(lambda x: lax.while_loop(lambda v: v < 100.0, lambda v: v * 2.0, x), jnp.float32(3.0))
    assert result == 192.0
    assert times == {(0, 0): 6}


def test_nested_loops_count_all_trips_of_the_inner_one() -> None:
    def outer(n: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, total: lax.fori_loop(0, i, lambda j, t: t + j, total), 0)

    (result,), times = count(outer, jnp.int32(5))
    assert result == sum(j for i in range(5) for j in range(i))
    assert times == {(0, 0): 5, (1, 0): sum(range(5))}


def test_branches_count_by_arm_also_inside_of_loops() -> None:
    def body(i: Any, v: Any) -> Any:
        v = lax.switch(i % 3, [lambda v: v, lambda v: v + 1, lambda v: v + 2], v)
        return lax.cond(i < 2, lambda v: lax.fori_loop(0, i + 1, lambda _, w: w + 10, v), lambda v: v, v)

    (result,), times = count(lambda n: lax.fori_loop(0, n, body, 0), jnp.int32(7))
    assert result == (0 + 1 + 2 + 0 + 1 + 2 + 0) + 10 * (1 + 2)
    loops = {key: n for key, n in times.items() if key[0] == 0}
    assert loops == {(0, 0): 7}
    by_site: dict[int, list[int]] = {}
    for (site, _), n in sorted(times.items()):
        by_site.setdefault(site, []).append(n)
    assert by_site[1] == [3, 2, 2]  # i % 3 over 0..6
    assert by_site[2] == [5, 2]  # i < 2: the false arm comes first
    assert by_site[3] == [3]  # 1 + 2 trips inside of the true arm


def test_only_the_sites_asked_for_are_counted() -> None:
    def nested(n: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, total: lax.fori_loop(0, i, lambda j, t: t + j, total), 0)

    _, times = count(nested, jnp.int32(4), sites=lambda _: frozenset({1}))
    assert times == {(1, 0): 0 + 1 + 2 + 3}


def test_a_function_called_twice_has_a_site_for_each_call() -> None:
    @jax.jit
    def double_until(x: Any, bound: Any) -> Any:
        return lax.while_loop(lambda v: v < bound, lambda v: v * 2.0, x)

    (result,), times = count(lambda x: double_until(x, 10.0) + double_until(x, 100.0), jnp.float32(1.0))
    assert result == 16.0 + 128.0
    assert sorted(times.values()) == [4, 7]


def test_a_program_without_loops_stays_as_it_is() -> None:
    (result,), times = count(lambda x: jnp.sin(x) ** 2, jnp.float32(0.0))
    assert result == 0.0
    assert times == {}
