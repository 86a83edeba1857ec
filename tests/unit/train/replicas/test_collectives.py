"""Functions over replicas: sums, means, gathers, scatters, keys, and the optimiser of the mean gradient.

The replicas are CPU devices; in `make test-all` they are the emulated machine's four IPUs too.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from tilestep import train
from tilestep.errors import ReplicasDifferError
from tilestep.train import Replicas

PLATFORM = "cpu"


@pytest.fixture(autouse=True, params=["cpu", pytest.param("ipu", marks=pytest.mark.slow)])
def _platform(request: pytest.FixtureRequest) -> None:
    global PLATFORM
    PLATFORM = request.param


def replicas(count: int, shards: int = 1) -> Replicas:
    return Replicas(devices=jax.devices(PLATFORM)[: count * shards], shards=shards)


def on_each(function: Callable[[Any], Any], values: Any) -> Any:
    """What `function` returns on each replica for its row of `values`, stacked."""
    there = replicas(len(values))

    def one(row: Any) -> Any:
        return jax.tree.map(lambda x: jnp.asarray(x)[None], function(row[0]))

    return jax.tree.map(np.asarray, jax.jit(there.shard_map(one, in_specs=P(there.axis), out_specs=P(there.axis)))(values))


def test_scattered_sums_of_groups() -> None:
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    parts = on_each(lambda x: train.cross_replica_reduce_scatter(x, group_size=2), values)
    assert parts.tolist() == [[3, 5], [7, 0], [15, 17], [19, 0]]


def test_all_to_all_is_a_transposition_and_its_own_inverse() -> None:
    values = np.arange(4 * 4 * 3, dtype=np.float32).reshape(4, 4, 3)
    once = on_each(train.cross_replica_all_to_all, values)
    np.testing.assert_array_equal(once, values.transpose(1, 0, 2))
    np.testing.assert_array_equal(on_each(train.cross_replica_all_to_all, once), values)
    moved = on_each(lambda x: train.cross_replica_all_to_all(x, split_axis=0, concat_axis=-1), values)
    np.testing.assert_array_equal(moved, values.transpose(1, 0, 2).reshape(4, 1, 12))
    with pytest.raises(ValueError, match=r"3 rows \(axis 1 of shape \(4, 3\)\) / 4 replicas is no whole number"):
        on_each(lambda x: train.cross_replica_all_to_all(x, split_axis=1), values)
    with pytest.raises(ValueError, match=r"concat_axis is 2, but the array has shape \(4, 3\): it must be -2 to 1"):
        on_each(lambda x: train.cross_replica_all_to_all(x, concat_axis=2), values)


def test_every_kind_of_number_and_any_tree() -> None:
    tree = {"i": np.arange(4, dtype=np.int8), "c": np.arange(4) * np.complex64(1j), "none": None}
    result = on_each_tree(train.cross_replica_sum, tree)
    assert (result["i"].tolist(), result["i"].dtype, result["c"][0], result["none"]) == ([6] * 4, np.int8, 6j, None)
    with pytest.raises(TypeError, match=r"cross_replica_mean of int8\[\]: a mean needs real or complex numbers"):
        on_each(train.cross_replica_mean, np.arange(4, dtype=np.int8))
    with pytest.raises(TypeError, match=r"cross_replica_reduce_scatter of int8\[4\]: a mean needs real or complex numbers"):
        on_each(lambda x: train.cross_replica_reduce_scatter(x, reduction="mean"), np.zeros((2, 4), np.int8))
    for function, way_out in ((train.cross_replica_reduce_scatter, "sum"), (train.cross_replica_all_to_all, "all_gather")):
        with pytest.raises(ValueError, match=f"of an array without axes: .* use cross_replica_{way_out}"):
            on_each(function, np.zeros(2, np.float32))
    with pytest.raises(TypeError, match="split_axis is '0': it must be a whole number"):
        train.cross_replica_all_to_all(np.zeros(2), split_axis="0")


def on_each_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    there = replicas(4)

    def one(tree: Any) -> Any:
        return jax.tree.map(lambda x: x[None], function(jax.tree.map(lambda x: x[0], tree)))

    return jax.tree.map(np.asarray, jax.jit(there.shard_map(one, in_specs=P(there.axis), out_specs=P(there.axis)))(tree))


def test_without_replicas_there_is_one() -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    for function in (train.cross_replica_sum, train.cross_replica_mean, train.cross_replica_reduce_scatter, train.cross_replica_all_to_all):
        np.testing.assert_array_equal(jax.jit(function)(x), x)
        np.testing.assert_array_equal(function(x, group_size=1), x)
    assert train.cross_replica_all_gather(x).shape == (1, 3, 2)
    assert (int(train.replica_index()), train.replica_count()) == (0, 1)
    with pytest.raises(ValueError, match=r"1 replicas / group_size 2"):
        train.cross_replica_sum(x, group_size=2)


def test_an_axis_of_another_name_is_an_error_and_not_one_replica() -> None:
    mesh = Mesh(np.array(jax.devices(PLATFORM)[:2]), ("data",))
    mapped = jax.shard_map(train.cross_replica_sum, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
    with pytest.raises(ValueError, match=r"jax.shard_map over 'data', which has no axis 'replica': give the loop `replicas`"):
        jax.jit(mapped)(np.ones(2, np.float32))
    named = Replicas(mesh=mesh, axis="data")
    result = jax.jit(named.shard_map(train.cross_replica_sum, in_specs=P("data"), out_specs=P("data")))(np.ones(2, np.float32))
    assert result.tolist() == [2, 2]


def diverged(there: Replicas, function: Callable[[Any], Any]) -> Any:
    """What `function` of the replica's number returns on each, called replicated."""
    return jax.jit(there.shard_map(lambda: function(train.replica_index()), in_specs=(), out_specs=P()))()


def test_what_differs_is_named_with_where_and_by_how_much() -> None:
    there = replicas(4)
    tree = diverged(
        there,
        lambda r: {
            "w": [jnp.arange(5.0).at[2].add(0.25 * r), jnp.ones(3)],
            "n": jnp.int32(7) - (r == 2),
            "nan": jnp.full(2, jnp.nan),
            "k": jax.random.wrap_key_data(jnp.array([1, 2], jnp.uint32) + (r == 1).astype(jnp.uint32)),
        },
    )
    found = {difference.path: difference for difference in train.replica_differences(tree, there)}
    assert set(found) == {"['w'][0]", "['n']", "['k']"}
    w, n = found["['w'][0]"], found["['n']"]
    assert (w.replica, w.elements, w.size, w.largest) == (3, 1, 5, 0.75)
    assert (n.replica, n.elements, n.size, n.largest) == (2, 1, 1, 1)
    assert found["['k']"].replica == 1
    with pytest.raises(
        ReplicasDifferError, match=r"3 arrays differ between replicas\n.*\n.*\n.*1 of 5 elements on replica 3 .* 0.75 at most\n"
    ) as error:
        train.require_equal_replicas(tree, there)
    assert len(error.value.differences) == 3


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "bfloat16", "float32", "complex64", "float8_e4m3fn"])
def test_differences_of_every_dtype_are_found(dtype: str) -> None:
    there = replicas(2)
    tree = diverged(there, lambda r: {"same": jnp.ones(3, dtype), "other": jnp.stack([jnp.zeros((), dtype), (r == 1).astype(dtype)])})
    (difference,) = train.replica_differences(tree, there)
    assert (difference.path, difference.replica, difference.elements, difference.largest) == ("['other']", 1, 1, 1)


def test_equal_arrays_and_other_things_are_no_differences() -> None:
    there = replicas(3)
    tree = there.place({"w": np.arange(4.0), "key": jax.random.key(0), "n": 3})
    assert train.replica_differences({**tree, "elsewhere": np.ones(2), "empty": there.place(np.zeros(0))}, there) == ()
    train.require_equal_replicas(tree, there)
    assert train.replica_differences(tree, replicas(1)) == ()


def test_a_comparison_of_nothing_is_an_error_and_no_equality() -> None:
    drifted = {"w": diverged(replicas(4), lambda r: jnp.float32(r))}
    with pytest.raises(ValueError, match=r"none of the 1 arrays is on the devices of <Replicas: 2, each 1 device .*: give the Replicas"):
        train.require_equal_replicas(drifted, replicas(2))
    with pytest.raises(
        ValueError, match=r"tree has array.* and no JAX arrays, so nothing could be compared: give what the loop has returned"
    ):
        train.require_equal_replicas({"w": np.zeros(3)}, replicas(2))
    with pytest.raises(ReplicasDifferError, match=r"^1 array differs between replicas\n"):
        train.require_equal_replicas(drifted, replicas(4))
