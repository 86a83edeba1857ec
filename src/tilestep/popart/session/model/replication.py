"""The replicas of a session: which variables they share, and what of them the host sends and reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import onnx

from tilestep.onnx.interpreter.values import Array
from tilestep.popart.builder import settings_of
from tilestep.popart.enums import ReplicatedStreamMode, VariableRetrievalMode
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.collectives import groups_in, reduced, replicas
from tilestep.popart.options import SessionOptions
from tilestep.popart.variables import ReplicaGrouping, VariableSettings

AXIS: Final = "replica"  # the axis over which a program of one replica is mapped
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Replication:
    """The replicas of a session.

    Attributes:
        count: how many there are.
        settings: of variables and of the optimiser's state, by name; all replicas share what is left out.
        broadcast: inputs of which all replicas get the same array.
        own: variables and state of which each replica has a copy that may differ from the others'.
    """

    count: int = 1
    settings: Mapping[str, VariableSettings] = field(default_factory=dict[str, VariableSettings])
    broadcast: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()

    def grouping(self, name: str) -> ReplicaGrouping:
        """The groups of replicas that share a variable."""
        settings = self.settings.get(name)
        return ReplicaGrouping(self.count) if settings is None or self.count == 1 else settings.getReplicaGrouping(self.count)

    def is_grouped(self, name: str) -> bool:
        """Whether there is more than one group."""
        return self.grouping(name).getNumGroups() > 1

    def group_sums(self, names: Iterable[str]) -> dict[str, tuple[Callable[[jax.Array], jax.Array], int]]:
        """For variables with more than one group, what sums over a group, and how many replicas a group has."""
        groupings = {name: self.grouping(name) for name in names if self.is_grouped(name)}
        return {name: (sum_over(grouping), grouping.getGroupSize()) for name, grouping in groupings.items()}

    def first_of(self, name: str, given: Array) -> Array:
        """The first group's array, of what the host gives.

        Raises: popart_exception if the first dimension does not count the groups.
        """
        if not self.is_grouped(name):
            return given
        self.settings[name].shapeOnReplica(given.shape, self.count, name)
        return given[0]

    def on_device(self, name: str, given: Array) -> Array:
        """An array as the device keeps it, of what the host gives: [replicas, ...] if each has its own."""
        if name not in self.own:
            return given
        if not self.is_grouped(name):
            return np.broadcast_to(given, (self.count, *given.shape))
        grouping = self.grouping(name)
        return given[[grouping.getGroupAt(replica) for replica in range(self.count)]]

    def of_groups(self, name: str, kept: Array) -> Array:
        """What the host may give again, of what the device keeps: the array of each group's first replica."""
        if name not in self.own:
            return kept
        grouping = self.grouping(name)
        if grouping.getNumGroups() == 1:
            return kept[0]
        return kept[[grouping.getReplicaAt(group) for group in range(grouping.getNumGroups())]]

    def returned(self, name: str, kept: Array) -> Array:
        """What the host reads, of what the device keeps: [replicas, ...] if the settings say AllReplicas, else as `of_groups`."""
        settings = self.settings.get(name)
        if self.count == 1 or settings is None or settings.getRetrievalMode() != VariableRetrievalMode.AllReplicas:
            return self.of_groups(name, kept)
        return kept if name in self.own else np.broadcast_to(kept, (self.count, *kept.shape))

    def taken(self, name: str, written: Array, given: Array) -> Array:
        """What the host gives next, of an array that a program writes: in the shape of `given`, or in that in which it is read.

        Raises: popart_exception if replicas of a group would get different values.
        """
        returned = self.returned(name, self.on_device(name, given))
        if written.shape != returned.shape or written.shape == given.shape:
            return written
        grouping = self.grouping(name)
        for group in range(grouping.getNumGroups()):
            first, *others = grouping.getReplicasAt(group)
            for other in others:
                if not np.array_equal(written[first], written[other]):
                    raise popart_exception(
                        f"Replicas {first} and {other} are of one group of '{name}', so they can't be given different values: write equal "
                        "ones, or one array for each group"
                    )
        firsts = [grouping.getReplicaAt(group) for group in range(grouping.getNumGroups())]
        return written[firsts[0]] if len(firsts) == 1 else written[firsts]

    def with_state(self, owners: Mapping[str, str], own: Collection[str]) -> Replication:
        """With the optimiser's state. Args: owners: name of a tensor -> its weight, whose settings it has. own: as the attribute."""
        state = {name: self.settings[weight] for name, weight in owners.items() if weight in self.settings}
        return replace(self, settings={**self.settings, **state}, own=frozenset(own))


def replication_of(proto: onnx.ModelProto, options: SessionOptions) -> Replication:
    """The replicas that options ask for.

    Raises: popart_exception for groups that do not divide their number, and AllReduceReplicas.
    """
    if not options.enableReplicatedGraphs:
        return Replication()
    count = int(options.replicatedGraphCount)
    if count == 1:
        return Replication()
    found = settings_of(proto)
    settings = {name: setting for name, setting in found.variables.items() if setting != VariableSettings()}
    for name, setting in settings.items():
        setting.getReplicaGrouping(count)
        if setting.getRetrievalMode() == VariableRetrievalMode.AllReduceReplicas:
            raise popart_exception(f"The variable '{name}' can't be read by AllReduceReplicas: choose OnePerGroup or AllReplicas")
    shared = {name for name, setting in found.inputs.items() if setting.replicatedStreamMode() == ReplicatedStreamMode.Broadcast}
    return Replication(count=count, settings=settings, broadcast=frozenset(shared))


def sum_over(grouping: ReplicaGrouping | None) -> Callable[[jax.Array], jax.Array]:
    """What sums an array over the replicas of a group; over all replicas if the grouping is None."""
    groups = None if grouping is None else groups_in(grouping)
    return lambda array: reduced(array, "Add", groups)


def in_replica(function: Callable[..., _T], count: int) -> Callable[..., _T]:
    """A function that is traced to be looked at, as one of several replicas runs it; results have a dimension of replicas in front."""
    if count == 1:
        return function

    def traced(*arguments: Any) -> Any:
        def of_one(_: Any) -> Any:
            with replicas(AXIS, count):
                return function(*arguments)

        return jax.vmap(of_one, axis_name=AXIS, axis_size=count)(jnp.zeros(count))

    return traced
