"""The program of several replicas of one IPU each, and where it has its arguments."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from tilestep.popart.session.program import Carry
from tilestep.popart.session.replicated import ReplicatedProgram
from tilestep.popart.session.replication import AXIS, Replication


def over_replicas(program: ReplicatedProgram, replication: Replication, carry: Carry) -> tuple[Any, Carry]:
    """(the jitted step of all replicas, one IPU each, what stays on the IPUs with its shardings).

    Args: carry: shapes of what stays on the device.
    """
    mesh = AbstractMesh((replication.count,), (AXIS,))

    def placed(path: Any, leaf: Any) -> Any:
        is_own = any(getattr(key, "key", None) in replication.own for key in path)
        sharding = NamedSharding(mesh, PartitionSpec(AXIS) if is_own else PartitionSpec())
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    return jax.jit(program.sharded_step(mesh)), jax.tree_util.tree_map_with_path(placed, carry)
