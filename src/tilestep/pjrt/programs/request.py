"""A program that JAX wants compiled: its code, its options, and the IPUs that it runs on."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilestep import protobuf
from tilestep.errors import UnsupportedError
from tilestep.machine.spec import MachineSpec
from tilestep.messages import shown
from tilestep.options import PREFIX, PlanOptions
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.programs.feeds import has_feeds


@dataclass(frozen=True, kw_only=True)
class Request:
    """A program that JAX wants compiled."""

    code: bytes  # StableHLO
    options: bytes  # a CompileOptionsProto, as JAX sent it
    plan_options: PlanOptions  # the process's, changed by the program's own
    host_options: compat.CompileOptions  # the options without ours, because XLA knows none of them
    assignment: np.ndarray[Any, Any]  # an IPU for each replica and partition
    serialized_assignment: bytes  # the DeviceAssignmentProto; b"" if JAX sent none
    num_replicas: int
    num_partitions: int
    has_feeds: bool  # whether the program has an infeed or outfeed

    @property
    def ipus(self) -> tuple[int, ...]:
        """The IPUs in the order of the program's devices."""
        return tuple(int(index) for index in self.assignment.reshape(-1))

    def allow_counters(self, count: int) -> None:
        """Lets XLA choose the sharding of `count` more outputs, because a counter has none. It wants one flag for each output."""
        build = self.host_options.executable_build_options
        flags = list(build.allow_spmd_sharding_propagation_to_output)
        if count and len(flags) > 1:
            build.allow_spmd_sharding_propagation_to_output = [*flags, *[True] * count]


def read_request(code: bytes, options: bytes, machine: MachineSpec, num_devices: int, plan_options: PlanOptions) -> Request:
    """Reads a program and its options, as JAX sent them.

    Args: plan_options: the process's. num_devices: IPUs that there are.
    Raises: ValueError if the program wants an IPU that does not exist; SettingsError for an option of ours that is wrong.
    """
    host_options = compat.parse_options(options)
    ours = [(key, value) for key, value in host_options.env_option_overrides if key.startswith(PREFIX)]
    host_options.env_option_overrides = [pair for pair in host_options.env_option_overrides if pair not in ours]
    plan_options = plan_options.changed(dict(ours))
    plan_options.require_tiles_left(machine.ipu.num_tiles)
    build = host_options.executable_build_options
    replicas, partitions = max(build.num_replicas, 1), max(build.num_partitions, 1)
    if build.device_assignment is None:
        assignment, serialized_assignment = np.arange(replicas * partitions).reshape(replicas, partitions), b""
    else:
        serialized_assignment = build.device_assignment.serialize()
        assignment = _assignment(serialized_assignment)
    request = Request(
        code=code,
        options=options,
        plan_options=plan_options,
        host_options=host_options,
        assignment=assignment,
        serialized_assignment=serialized_assignment,
        num_replicas=replicas,
        num_partitions=partitions,
        has_feeds=has_feeds(code),
    )
    if unknown := [index for index in request.ipus if not 0 <= index < num_devices]:
        raise ValueError(f"the program wants IPU {unknown[0]}; {machine.name} has IPUs 0 to {num_devices - 1}")
    part = Counter(index % machine.num_simulated for index in request.ipus)
    if not part.keys() <= set(request.ipus) or len(set(part.values())) > 1:
        raise UnsupportedError(
            f"a program is for the IPUs {shown(list(request.ipus))}, but {machine.num_simulated} IPUs are simulated (simulated_ipus), "
            f"as if IPU k did what IPU k modulo {machine.num_simulated} does: run it on all IPUs that do the same, simulate the IPUs of a "
            "whole replica, or all (TILESTEP_SIMULATED_IPUS, or simulated_ipus of the machine's file)"
        )
    return request


def _assignment(serialized: bytes) -> np.ndarray[Any, Any]:
    """[replica, partition] -> device, from a DeviceAssignmentProto (computation_devices = 3: replica_device_ids = 1)."""
    partitions = [value for field, value in protobuf.fields(serialized) if field == 3 and isinstance(value, bytes)]
    columns = [[device for field, value in protobuf.fields(part) if field == 1 for device in protobuf.ints(value)] for part in partitions]
    return np.array(columns).T
