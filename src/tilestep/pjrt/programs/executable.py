"""Compiled programs: what XLA:CPU runs for their values, and the plan that says what they would cost."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilestep.hints import current_group
from tilestep.machine.spec import MachineSpec
from tilestep.options import PREFIX
from tilestep.pjrt import _native
from tilestep.pjrt.jax_private import compat, proto
from tilestep.pjrt.jax_private.mlir import module_name
from tilestep.pjrt.programs import callbacks
from tilestep.pjrt.programs.analysis import partitioned_hlo
from tilestep.pjrt.programs.counters import NO_SITE, add_counters, mark_sites
from tilestep.pjrt.programs.feeds import Dispatch, has_feeds, not_cheap, worker_of
from tilestep.pjrt.programs.serialized import Stored
from tilestep.pjrt.running.dry import DryArray, DryMode, current_mode, require_one_kind, settled
from tilestep.pjrt.running.journal import PlannedRun
from tilestep.pjrt.table import capi
from tilestep.pjrt.table.buffer import TOKEN_SHAPE, shape_of
from tilestep.pjrt.table.client import Client
from tilestep.pjrt.table.device import MEMORY_KINDS
from tilestep.pjrt.table.entry_points import int32s, int64s, named_values, pointers, sizes, text
from tilestep.pjrt.table.layouts import order_in, row_major
from tilestep.plan.liveness import check_fits
from tilestep.plan.steps import Program
from tilestep.plan.streaming import check_streaming_memory
from tilestep.sim.body import body_cost
from tilestep.units import seconds_from_cycles

Done = dict[str, Any]  # what one run has done, by name
Outcome = tuple[list[Any], Any]  # arrays by result; a token or None


class LoadedExecutable(_native.ExecutableBase):
    """A program on its IPUs."""

    def __init__(self, client: Client, code: bytes, options: bytes, stored: Stored | None = None) -> None:
        """Compiles, or takes what was compiled before.

        Args: code: StableHLO. options: a CompileOptionsProto. stored: what another process compiled from both.
        Raises: TileMemoryError, StreamingMemoryError if the program does not fit; StoredError if it was stored for another machine;
        whatever XLA raises for a program that it cannot compile.
        """
        client.require_same_settings()
        self.client = client
        self.options = options
        self.key = next(client.program_keys)
        parsed = compat.parse_options(options)
        own = [(key, value) for key, value in parsed.env_option_overrides if key.startswith(PREFIX)]
        parsed.env_option_overrides = [pair for pair in parsed.env_option_overrides if pair not in own]  # XLA knows none of ours
        self.plan_options = client.settings.plan_options.changed(dict(own))
        build = parsed.executable_build_options
        assignment = _device_assignment(build.device_assignment)
        self.num_replicas = max(build.num_replicas, 1)
        self.num_partitions = max(build.num_partitions, 1)
        if assignment is None:
            assignment = np.arange(self.num_replicas * self.num_partitions).reshape(self.num_replicas, self.num_partitions)
        self.assignment = assignment
        self.serialized_assignment = build.device_assignment.serialize() if build.device_assignment is not None else b""
        wanted = [int(index) for index in assignment.reshape(-1)]
        if unknown := [index for index in wanted if not 0 <= index < len(client.devices)]:
            raise ValueError(f"the program wants IPU {unknown[0]}; {client.machine.name} has IPUs 0 to {len(client.devices) - 1}")
        self.code, self._parsed = code, parsed
        self._has_feeds = has_feeds(code)
        if b"lapack_" in code:  # perhaps lowered by another process
            compat.load_lapack()
        self._host_devices = [client.host_devices[index] for index in wanted]
        self.devices = tuple(client.devices[index] for index in wanted)
        self.ipus = tuple(wanted)
        self._host_executable: Any = None
        self.counted: tuple[tuple[int, int], ...] = ()
        self._dry_runs: dict[DryMode, PlannedRun] = {}
        if stored is None:
            self._plan_and_compile()
        else:
            self._restore(stored)
        self._set_outputs(self.planned_hlo)
        may_wait_for_the_host = self._has_feeds or self.callbacks  # and for what it does after it has started the program
        if len(wanted) > 1 and not may_wait_for_the_host:
            self.in_flight = client.in_flight.make_room, client.in_flight.add

    def _plan_and_compile(self) -> None:
        client = self.client
        with compat.make_context() as context:
            module = self._parse(context)
            hlo = partitioned_hlo(client.host, module, self._host_devices, self._parsed.SerializeAsString(), self.callbacks)
            self.program = client.plans.plan(
                compat.hlo_text(hlo), client.machine, name=self.name, num_ipus=len(self.ipus), options=self.plan_options
            )
            self.planned_hlo = hlo
            if current_mode() is None:
                self._check_fits()
                self._compile_values(module)

    def _restore(self, stored: Stored) -> None:
        stored.require_fits(self.client.machine, self.plan_options)
        self.name, self.places, self.callbacks = stored.name, list(stored.places), []
        self.program, self.planned_hlo = stored.program, stored.hlo
        if current_mode() is not None:
            return
        self._check_fits()
        if stored.values:
            self.counted = stored.counted
            _allow_more_outputs(self._parsed.executable_build_options, len(self.counted))
            self._host_executable = compat.deserialize(self.client.host, stored.values, self._host_devices, self._parsed)

    def _check_fits(self) -> None:
        if not (self.client.settings.allow_out_of_memory or self.plan_options.allow_out_of_memory):
            check_fits(self.program, self.client.machine)
            check_streaming_memory(self.program, self.client.machine, self.ipus)

    def _parse(self, context: Any) -> Any:
        context.allow_unregistered_dialects = True
        module = compat.parse_program(self.code, context)
        self.name = module_name(module)
        self.callbacks = callbacks.renumber(module)
        self.places = mark_sites(module)
        return module

    def _compile_values(self, module: Any) -> None:
        self.counted = add_counters(module, frozenset(self.program.sites), not_cheap if self._has_feeds else None)
        _allow_more_outputs(self._parsed.executable_build_options, len(self.counted))
        self._host_executable = compat.compile_module(self.client.host, module, self._host_devices, self._parsed, self.callbacks)

    @property
    def is_dry(self) -> bool:
        """Whether nothing computes its values yet."""
        return self._host_executable is None

    @property
    def host_executable(self) -> Any:
        """What computes the values; a program that was compiled in a dry run gets it when something first needs it."""
        if self._host_executable is None:
            with compat.make_context() as context:
                self._compile_values(self._parse(context))
        return self._host_executable

    def _set_outputs(self, hlo: bytes) -> None:
        results = list(compat.program_results(_program_shape(hlo)))
        self.results = results
        self.num_outputs = len(results)
        on_host = [result.on_host for result in self.program.results]
        self.memory_kinds = ["pinned_host" if is_on_host else "device" for is_on_host in on_host]
        if self._host_executable is not None:
            kinds = list(self._host_executable.get_output_memory_kinds()[0])[: len(results)]
            if len(kinds) == len(results):
                self.memory_kinds = kinds
        orders = [order for _, _, order in results]
        if self._host_executable is not None and all(dtype is not None for _, dtype, _ in results):  # XLA tells none beside a token
            orders = [order_in(form) for form in self.output_layouts()]  # the program may leave a layout open
        self.shapes = tuple(
            TOKEN_SHAPE if dtype is None else shape_of(dims, dtype, order) for (dims, dtype, _), order in zip(results, orders, strict=True)
        )
        self.memories = tuple(tuple(device.memory(kind) for kind in self.memory_kinds) for device in self.devices)

    @functools.cached_property
    def _counters(self) -> tuple[tuple[int, int], ...]:
        """What emulated time has to wait for; the result that counts nothing comes last and is none of them."""
        return tuple(key for key in self.counted if key != NO_SITE)

    @functools.cached_property
    def _planned(self) -> PlannedRun:
        return PlannedRun(self.program, self.key, self.ipus, self.num_outputs, self._counters)

    @functools.cached_property
    def _shardings(self) -> dict[str, Any]:
        return {kind: compat.replicated_over(self._host_devices, kind) for kind in MEMORY_KINDS}

    @functools.cached_property
    def _handlers(self) -> list[Any] | None:
        """What makes an array of each result and counter; None where JAX takes results apart: a token, counters of several IPUs."""
        several = len(self.devices) > 1
        if any(dtype is None for _, dtype, _ in self.results) or (several and self.counted):
            return None
        shapes = [(dims, dtype) for dims, dtype, _ in self.results if dtype is not None] + [((), np.dtype(np.int32))] * len(self.counted)
        kinds = self.memory_kinds + ["device"] * len(self.counted)
        places = [self._shardings[kind] if several else compat.single_device_sharding(self._host_devices[0], kind) for kind in kinds]
        return [compat.result_handler(dims, dtype, place) for (dims, dtype), place in zip(shapes, places, strict=True)]

    @property
    def _is_waited_for(self) -> bool:
        """Whether that it ended says more than its results."""
        return not self.num_outputs or bool(self.callbacks)

    @property
    def _has_token(self) -> bool:
        return self._is_waited_for or self.in_flight is not None

    @functools.cached_property
    def _execute(self) -> Any:
        execute = self.host_executable.execute_sharded
        return functools.partial(execute, with_tokens=True) if self._has_token else execute

    def run(self, columns: list[Any], values: tuple[int, ...], first: int, kept: tuple[int, ...] | None, done: Done) -> Outcome:
        """Computes the results, and notes that it was done. Called from C, and again if a Ctrl-C came in between.

        Args: columns: arrays by argument; of several IPUs, one array over all of them or a list. The others as Journal.run has them.
            done: what the run has done before the Ctrl-C, and must not do twice (`_native.once`).
        Returns: arrays by result in the same form, the counters behind them; a token to wait for, or None.
        """
        mode = current_mode()
        if mode is not None or any(type(column[0] if isinstance(column, list) else column) is DryArray for column in columns):
            return self._run_dry(columns, values, first, kept or (), mode, done)
        if self._has_feeds:
            return self._run_with_feeds(columns, values, first, kept, done)
        return self._run_now(columns, values, first, kept, done)

    def _run_with_feeds(self, columns: list[Any], values: tuple[int, ...], first: int, kept: tuple[int, ...] | None, done: Done) -> Outcome:
        dispatch = done.setdefault("dispatch", Dispatch(lambda: self._run_now(columns, values, first, kept, {})))
        worker_of(self.ipus[0]).hand_over(dispatch)
        pair, error = dispatch.outcome()
        if error is not None:
            raise error
        return pair

    def _run_now(self, columns: list[Any], values: tuple[int, ...], first: int, kept: tuple[int, ...] | None, done: Done) -> Outcome:
        if "noted" in done:
            return done["outcome"]
        for index in kept or () if "results" not in done else ():
            columns[index] = self._copy(columns[index])
        if len(self.devices) > 1:
            columns[:] = [self._join(column) if isinstance(column, list) else column for column in columns]  # C keeps what it finds there
        results, token = _native.once(done, "results", self._execute, columns), None
        if self._has_token:
            token = _native.once(done, "token", results.consume_token)
            if self.in_flight is not None:
                self.client.in_flight.add(token)
        if self._handlers is None:
            arrays = _native.once(done, "arrays", results.disassemble_into_single_device_arrays)
        else:
            arrays = _native.once(done, "arrays", results.consume_with_handlers, self._handlers)
            if self.direct is None and self.num_outputs and not (self.counted or self.callbacks or self._has_feeds):
                self.direct = (self._execute, self._handlers, *self.client.journal.note_run, self._planned, current_group)
        counters = [
            array if isinstance(array, list) else [array] for array in arrays[self.num_outputs : self.num_outputs + len(self._counters)]
        ]
        outcome = done["outcome"] = arrays, token if self._is_waited_for else None
        self.client.journal.run(self._planned, values, first, counters, kept or (), done)
        return outcome

    def _run_dry(
        self, columns: list[Any], values: tuple[int, ...], first: int, kept: tuple[int, ...], mode: DryMode | None, done: Done
    ) -> Outcome:
        require_one_kind(columns, [argument.name for argument in self.program.arguments], mode)
        assert mode is not None  # else the arguments were of the wrong kind
        planned = self._dry_runs.get(mode)
        if planned is None:
            program = settled(self.program, mode, self.places)
            key = self.key if program is self.program else next(self.client.program_keys)
            planned = self._dry_runs[mode] = PlannedRun(program, key, self.ipus, self.num_outputs, ())
        for argument, column in zip(self.program.arguments, columns, strict=True):
            if argument.result is not None and argument.index not in kept:
                for array in column if isinstance(column, list) else [column]:
                    array.delete()
        self.client.journal.run(planned, values, first, [], kept, done)
        no_value = np.dtype(np.bool_)  # what stands for a token
        return [[DryArray(dims, dtype or no_value, mode) for _ in self.devices] for dims, dtype, _ in self.results], None

    def _join(self, column: list[Any]) -> Any:
        return compat.join(column, self._shardings[column[0].sharding.memory_kind])

    def _copy(self, column: Any) -> Any:
        if isinstance(column, list):
            return [self._copy(array) for array in column]
        (device,) = column.devices()
        return compat.copy(column, device, column.sharding.memory_kind)

    # What JAX asks for once in a while

    def output_layouts(self) -> list[str]:
        """Layouts of the outputs as text; in a dry run every array is row-major."""
        if self._host_executable is None:
            return [row_major(len(dims)) for dims, _, _ in self.results]
        return [str(form) for form in self._host_executable.get_output_layouts()[: self.num_outputs]]

    def parameter_layouts(self) -> list[str]:
        """Layouts of the arguments as text."""
        if self._host_executable is None:
            return [row_major(len(dims)) for dims in compat.program_arguments(_program_shape(self.planned_hlo))]
        return [str(form) for form in self._host_executable.get_parameter_layouts()]

    @functools.cached_property
    def host_device_addresses(self) -> Any:
        """PJRT_Device*, in order."""
        return pointers([device.address for device in self.devices])

    @functools.cached_property
    def logical_ids(self) -> Any:
        """(replica, partition) of each device, in order."""
        array = (capi.PJRT_LogicalDeviceIds * len(self.devices))()
        for slot, device in zip(array, self.devices, strict=True):
            replica, partition = np.argwhere(self.assignment == device.id)[0]
            slot.replica, slot.partition = int(replica), int(partition)
        return array

    @functools.cached_property
    def optimized_program(self) -> bytes:
        """The HLO that XLA:CPU runs, with the part of its configuration that JAX reads."""
        dry = self._host_executable is None
        module = self.planned_hlo if dry else self.host_executable.hlo_modules()[0].as_serialized_hlo_module_proto()
        if self.counted:
            module = _without_counter_shardings(module, self.num_outputs)
        config = (
            proto.bytes_field(1, _program_shape(module)) + proto.int_field(4, self.num_replicas) + proto.int_field(5, self.num_partitions)
        )
        config += proto.int_field(7, 1) + proto.int_field(34, 1)  # partitioned by Shardy or GSPMD already
        return proto.bytes_field(1, module) + proto.bytes_field(2, config)

    @functools.cached_property
    def cost(self) -> tuple[Any, list[Any]]:
        """XLA's figures, and ours beside them."""
        figures: dict[str, int | float | str | Sequence[int]] = {k: float(v) for k, v in self.host_executable.cost_analysis().items()}
        return named_values(figures | cost_figures(self.program, self.client.machine, self.ipus))

    @functools.cached_property
    def output_types(self) -> Any:
        """PJRT_Buffer_Type of each output."""
        return int32s([shape.type for shape in self.shapes])

    @functools.cached_property
    def output_dims(self) -> tuple[Any, Any]:
        """All outputs' dimensions one after the other, and each one's rank."""
        return int64s([dim for dims, _, _ in self.results for dim in dims]), sizes([len(dims) for dims, _, _ in self.results])

    @functools.cached_property
    def output_kinds(self) -> tuple[Any, Any]:
        """Names of the outputs' memory kinds, and the names' lengths."""
        names = [text(kind) for kind in self.memory_kinds]
        return pointers([address for address, _ in names]), sizes([size for _, size in names])

    @functools.cached_property
    def fingerprint(self) -> str:
        """Equal for equal programs on equal machines, compiled here or stored by another process."""
        return hashlib.sha256(self.code + self.options + repr((self.client.machine, self.plan_options)).encode()).hexdigest()


def cost_figures(program: Program, machine: MachineSpec, ipus: Sequence[int]) -> dict[str, float]:
    """What cost_analysis() says of the emulated machine: one run, each data-dependent loop and branch taken once, no host I/O."""
    body = body_cost(program, machine, ipus)
    cycles = sum(part.total for part in (body.fixed, *body.counted.values()))
    return {
        "ipu cycles": float(cycles),
        "ipu seconds": seconds_from_cycles(cycles, machine.ipu.clock_hz),
        "ipu peak tile bytes": float(program.memory.peak_bytes),
    }


def _program_shape(module: bytes) -> bytes:
    """The ProgramShapeProto in an HloModuleProto (host_program_shape = 4)."""
    return next(value for field, value in proto.fields(module) if field == 4 and isinstance(value, bytes))


def _without_counter_shardings(module: bytes, outputs: int) -> bytes:
    """The module whose output sharding (HloModuleProto field 12: a tuple, parts in field 5) says nothing of the counters."""
    out = bytearray()
    for field, value in proto.fields(module):
        if isinstance(value, int):
            out += proto.int_field(field, value)
        elif field == 12:
            parts = [(number, part) for number, part in proto.fields(value)]
            kept = [part for number, part in parts if number == 5][:outputs]
            plain = b"".join(proto.int_field(n, v) if isinstance(v, int) else proto.bytes_field(n, v) for n, v in parts if n != 5)
            out += proto.bytes_field(field, plain + b"".join(proto.bytes_field(5, part) for part in kept if isinstance(part, bytes)))
        else:
            out += proto.bytes_field(field, value)
    return bytes(out)


def _device_assignment(assignment: Any) -> np.ndarray[Any, Any] | None:
    """[replica, partition] -> device, out of a DeviceAssignmentProto (computation_devices = 3: replica_device_ids = 1)."""
    if assignment is None:
        return None
    partitions = [value for field, value in proto.fields(assignment.serialize()) if field == 3 and isinstance(value, bytes)]
    columns = [[device for field, value in proto.fields(part) if field == 1 for device in proto.ints(value)] for part in partitions]
    return np.array(columns).T


def _allow_more_outputs(build: Any, count: int) -> None:
    """One flag per output says whether XLA may choose its sharding: it may for a counter that has none."""
    flags = list(build.allow_spmd_sharding_propagation_to_output)
    if count and len(flags) > 1:
        build.allow_spmd_sharding_propagation_to_output = [*flags, *[True] * count]
