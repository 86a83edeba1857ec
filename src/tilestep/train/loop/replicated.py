"""Runs a loop's program on replicas: each runs all steps of a chunk, on its own elements."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import jax
from jax.sharding import PartitionSpec
from jax.typing import ArrayLike

from tilestep.errors import ReplicasDifferError
from tilestep.messages import shown
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.loop.carry import Carry
from tilestep.train.optimizers.sharded import replica_specs
from tilestep.train.replicas.divergence import replica_differences
from tilestep.train.replicas.replicas import Replicas
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


@dataclass(frozen=True, kw_only=True)
class ReplicatedLoop:
    """A loop that runs on replicas."""

    replicas: Replicas  # the devices
    element_axis: bool  # whether a chunk's elements have an axis of replicas, after that of steps

    def replicate(self, run: Callable[..., Pytree]) -> Callable[..., Pytree]:
        """`run(carry, ..., elements) -> (carry, ..., values)` on each replica; values get an axis of replicas if there are several."""
        replicas = self.replicas
        whole, divided = PartitionSpec(), PartitionSpec(None, replicas.axis)
        gathered = len(replicas.local) < replicas.count  # each process sees the values of all replicas
        elements_spec = divided if self.element_axis else whole

        def on_replica(carry: Pytree, *others: Pytree) -> Pytree:
            *middle, elements = others
            if self.element_axis:
                elements = _jax.tree.map(lambda stacked: _jax.lax.squeeze(stacked, (1,)), elements)
            *results, values = run(carry, *middle, elements)
            if gathered:
                values = _jax.tree.map(lambda stacked: _jax.lax.all_gather(stacked, replicas.axis, axis=1), values)
            elif replicas.count > 1:
                values = _jax.tree.map(lambda stacked: _jax.lax.expand_dims(stacked, (1,)), values)
            return *results, values

        values_spec = divided if replicas.count > 1 and not gathered else whole

        def on_replicas(carry: Pytree, *others: Pytree) -> Pytree:
            middle = (whole,) * (len(others) - 1)
            carry_spec = replica_specs(carry, replicas.axis)
            in_specs, out_specs = (carry_spec, *middle, elements_spec), (carry_spec, *middle, values_spec)
            return replicas.shard_map(on_replica, in_specs=in_specs, out_specs=out_specs)(carry, *others)

        return on_replicas

    def holds_everywhere(self, condition: jax.Array) -> jax.Array:
        """Whether bool[] `condition` is true on all replicas."""
        return _jax.lax.pmin(condition.astype(_jax.numpy.int32), self.replicas.axis) > 0

    def on_all_replicas(self, condition: Callable[[Pytree], ArrayLike]) -> Callable[[Pytree], ArrayLike]:
        """A function of the replicated carry that says, bool[], whether `condition` is true on all replicas."""
        replicas = self.replicas

        def on_replica(carry: Pytree) -> jax.Array:
            return self.holds_everywhere(_jax.numpy.asarray(condition(carry)))

        def on_all(carry: Pytree) -> jax.Array:
            specs = (replica_specs(carry, replicas.axis),)
            return replicas.shard_map(on_replica, in_specs=specs, out_specs=PartitionSpec())(carry)

        return on_all

    def placed(self, carry: Carry) -> Carry:
        """The carry, copied to the replicas if it is not there.

        Raises:
            ValueError: if parts of it are on other devices.
            ReplicasDifferError: if processes give different carries.
        """
        tree = self.replicas.place(carry.tree)
        if tree is not carry.tree and len(self.replicas.local) < self.replicas.count:
            differences = replica_differences(tree, self.replicas)
            if differences:
                raise ReplicasDifferError(differences=differences, before_loop=True)
        shardings = tuple(leaf.sharding for leaf in _jax.tree.leaves(tree))
        return dataclasses.replace(carry, tree=tree, sharding=self.replicas.replicated, shardings=shardings)


def replicated_loop(replicas: Replicas | None, infeed: InfeedQueue | None, outfeed: OutfeedQueue | None) -> ReplicatedLoop | None:
    """How a loop with these feeds runs on replicas; None: without replicas.

    Raises:
        TypeError: if `replicas` is no Replicas.
        ValueError: if a feed is made for other replicas.
    """
    if replicas is None:
        return None
    if not isinstance(replicas, Replicas):
        argument = f"devices={shown(replicas)}" if isinstance(replicas, list | tuple) else shown(replicas)
        raise TypeError(f"replicas is {shown(replicas)}: it must be Replicas, such as Replicas({argument})")
    if outfeed is not None and outfeed.replicas is not None:
        raise ValueError(
            f"the OutfeedQueue is made for values with an axis of {outfeed.replicas} replicas, but each of the loop's {replicas.count} "
            "replicas enqueues its own: leave replicas away from the OutfeedQueue"
        )
    if infeed is None:
        return ReplicatedLoop(replicas=replicas, element_axis=False)
    expected = replicas if len(replicas.local) < replicas.count else replicas.count
    if infeed.replicas not in (replicas, expected, *((None,) if replicas.count == 1 else ())):
        raise ValueError(
            f"the loop has {replicas.count} replicas, but a step of the InfeedQueue is of "
            f"{'one' if infeed.replicas is None else infeed.replicas}: make it InfeedQueue(dataset, replicas=replicas), which gives each "
            "replica its own element"
        )
    return ReplicatedLoop(replicas=replicas, element_axis=infeed.replicas is not None)
