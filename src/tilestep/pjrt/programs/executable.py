"""Compiled programs: XLA:CPU's program for the values, and the plan for emulated time and memory."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tilestep.errors import StreamingMemoryError, TileMemoryError, UnsupportedError
from tilestep.pjrt import _native
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.jax_private.mlir import module_name
from tilestep.pjrt.programs import callbacks
from tilestep.pjrt.programs.analysis import partitioned_hlo
from tilestep.pjrt.programs.convolutions import quicken_convolutions
from tilestep.pjrt.programs.counters import add_counters, mark_sites
from tilestep.pjrt.programs.feeds import not_cheap, run_on_worker
from tilestep.pjrt.programs.host_runs import Done, HostProgram, HostRuns, Outcome, real_counters
from tilestep.pjrt.programs.outputs import outputs_of
from tilestep.pjrt.programs.request import read_request
from tilestep.pjrt.programs.serialized import Serialized, machine_id
from tilestep.pjrt.running.dry import DryRuns, any_dry
from tilestep.pjrt.running.entries import PlannedRun
from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.pjrt.running.recorded_programs import RefusedProgram
from tilestep.pjrt.table.client import Client
from tilestep.plan.memory.liveness import check_fits
from tilestep.plan.memory.streaming import check_streaming_memory
from tilestep.plan.steps import Program


@dataclass(frozen=True, kw_only=True)
class ProgramPlan:
    """A program as it was planned."""

    name: str  # the module's
    hlo: bytes  # the HloModuleProto that was planned
    program: Program
    site_locations: tuple[str, ...]  # the source line of each loop and branch that can be counted
    callbacks: tuple[Callable[..., Any], ...] = ()  # the Python functions that it calls, by number


class LoadedExecutable(_native.ExecutableBase):
    """A program on its IPUs.

    It has more than 15 attributes because eight of them (`num_replicas` to `direct`) are the fields of the base class, which C reads on
    the path of a dispatch.

    Attributes:
        client: the machine that the program runs on.
        key: the program's number in emulated time.
        request: the program as JAX sent it.
        source: what it was planned from.
        plan: the program as it was planned.
        outputs: its results.
        metadata: answers to JAX by name (executable_entries.py), kept because JAX holds pointers into them.
    """

    def __init__(self, client: Client, code: bytes, options: bytes, serialized: Serialized | None = None) -> None:
        """Compiles the program, or loads it.

        Args: code: StableHLO. options: a CompileOptionsProto. serialized: the program as it was compiled from both before.
        Raises: TileMemoryError, StreamingMemoryError if the program does not fit; StoredError if it was compiled for another machine;
        XLA's own exception for a program that XLA cannot compile.
        """
        client.require_same_settings()
        self.client = client
        self._keys: list[int] = []
        self.key = self._new_key()
        self.request = read_request(code, options, client.machine, len(client.devices), client.settings.plan_options)
        self.metadata: dict[str, Any] = {}
        self._host_program: HostProgram | None = None
        if b"lapack_" in code:  # another process may have lowered the program
            compat.load_lapack()
        self._host_devices = [client.host_devices[index] for index in self.request.ipus]
        if serialized is None:
            self.plan = self._plan_and_compile()
        else:
            self.plan = self._restore(serialized)
        client.player.programs.compiled(self.key, self.source)
        if client.settings.engine.directory is not None:
            client.program_reports.compiled(self.source, self.key)
        self.outputs = outputs_of(self.plan.hlo, self.plan.program, self.host_executable_if_any)
        self._set_c_fields()

    def _set_c_fields(self) -> None:
        self.num_replicas, self.num_partitions = self.request.num_replicas, self.request.num_partitions
        self.num_outputs, self.shapes = len(self.outputs.specs), self.outputs.shapes
        self.devices = tuple(device for index in self.request.ipus if (device := self.client.devices[index]).is_simulated)
        self.memories = tuple(tuple(device.memory(kind) for kind in self.outputs.memory_kinds) for device in self.devices)
        may_wait_for_the_host = self.request.has_feeds or self.plan.callbacks  # and for what it does after it has started the program
        if len(self.devices) > 1 and not may_wait_for_the_host:
            self.in_flight = self.client.in_flight.make_room, self.client.in_flight.add

    def _new_key(self) -> int:
        self._keys.append(next(self.client.program_keys))
        return self._keys[-1]

    def __del__(self) -> None:
        self.client.player.journal.gone.extend(getattr(self, "_keys", ()))  # there are none if the settings were wrong

    # ------------------------------------------------------------------------------------------------------- compile

    def _plan_and_compile(self) -> ProgramPlan:
        client, request = self.client, self.request
        with compat.make_context() as context:
            module, name, functions, site_locations = self._parse(context)
            hlo = partitioned_hlo(client.host, module, self._host_devices, request.host_options.SerializeAsString(), functions)
            program = client.plans.plan(
                compat.hlo_text(hlo), client.machine, name=name, num_ipus=len(request.ipus), options=request.plan_options
            )
            self.source = self._source(name, hlo)
            self._check_fits(program)
            if client.dry_mode is None:
                self._host_program = self._compile_values(module, program, functions)
            else:
                program = replace(program, dry=True)
        return ProgramPlan(name=name, hlo=hlo, program=program, site_locations=site_locations, callbacks=tuple(functions))

    def _restore(self, serialized: Serialized) -> ProgramPlan:
        serialized.require_fits(self.client.machine, self.request.plan_options)
        plan = ProgramPlan(name=serialized.name, hlo=serialized.hlo, program=serialized.program, site_locations=serialized.site_locations)
        self.source = self._source(plan.name, plan.hlo)
        self._check_fits(plan.program)
        if self.client.dry_mode is not None:
            return replace(plan, program=replace(plan.program, dry=True))
        if serialized.values:
            self.request.allow_counters(len(serialized.counted))
            options = self.request.host_options
            executable = compat.deserialize(self.client.host, serialized.values, self._host_devices, options)
            self._host_program = HostProgram(executable, serialized.counted)
        return plan

    def _check_fits(self, program: Program) -> None:
        """Reports a program that does not fit. Raises: TileMemoryError, StreamingMemoryError unless that is allowed, or in a dry run.

        Whoever made a machine beside the process's asks by himself what fits.
        """
        client = self.client
        if client.is_beside:
            return
        try:
            check_fits(program, client.machine)
            check_streaming_memory(program, client.machine, self.request.ipus)
        except (TileMemoryError, StreamingMemoryError) as error:
            report = client.program_reports.does_not_fit(self.source, self.key)
            allowed = client.settings.allow_out_of_memory or self.request.plan_options.allow_out_of_memory
            if not allowed and client.dry_mode is None:
                client.player.programs.does_not_fit(self.key, RefusedProgram(program, self.source, self.request.ipus[0], error))
                raise error.reported(report) from None

    def _parse(self, context: Any) -> tuple[Any, str, list[Callable[..., Any]], tuple[str, ...]]:
        """The module with numbered callbacks and sites; its name, callbacks, and the source lines of its sites."""
        context.allow_unregistered_dialects = True
        module = compat.parse_program(self.request.code, context)
        name = module_name(module)
        functions = callbacks.renumber(module)
        return module, name, functions, mark_sites(module)

    def _compile_values(self, module: Any, program: Program, functions: list[Callable[..., Any]]) -> HostProgram:
        request = self.request
        counted = add_counters(module, frozenset(program.sites), not_cheap if request.has_feeds else None)
        request.allow_counters(len(counted))
        quicken_convolutions(module)
        executable = compat.compile_module(self.client.host, module, self._host_devices, request.host_options, functions)
        return HostProgram(executable, counted)

    @property
    def host_program(self) -> HostProgram:
        """XLA:CPU's program for the values. A program that was compiled in a dry run gets it at first use."""
        if self._host_program is None:
            with compat.make_context() as context:
                module, _, functions, _ = self._parse(context)
                self._host_program = self._compile_values(module, self.plan.program, functions)
        return self._host_program

    @property
    def host_executable_if_any(self) -> Any:
        """XLA:CPU's executable; None if nothing computes values yet."""
        return None if self._host_program is None else self._host_program.executable

    @property
    def counted(self) -> tuple[tuple[int, int], ...]:
        """(site, arm) of each counter behind the program's own results; () while no program computes values."""
        return () if self._host_program is None else self._host_program.counted

    def serialized(self) -> Serialized:
        """The program's parts. Raises: UnsupportedError if it calls Python functions, which live in this process only."""
        plan, request = self.plan, self.request
        if plan.callbacks:
            raise UnsupportedError(f"program {plan.name!r} calls Python functions of this process, so it cannot be serialised")
        executable = self.host_executable_if_any
        return Serialized(
            name=plan.name,
            machine=machine_id(self.client.machine),
            plan_options=repr(request.plan_options),
            counted=self.counted,
            site_locations=plan.site_locations,
            code=request.code,
            options=request.options,
            hlo=plan.hlo,
            values=b"" if executable is None else compat.serialize(self.client.host, executable),
            program=replace(plan.program, dry=False),
        )

    # ----------------------------------------------------------------------------------------------------------- run

    def run(self, columns: list[Any], values: tuple[int, ...], first: int, undonated: tuple[int, ...] | None, done: Done) -> Outcome:
        """Computes the results and notes the run in the journal. C calls this, and again if a Ctrl-C ended the first call.

        Args: columns: arrays by argument; of several IPUs, one array over all of them or a list. values, first, undonated: as Journal.run
            has them. done: what the first call has done and the second must not do again (`_native.once`).
        Returns: arrays by result in the same form, with the counters behind them; a token to wait for, or None.
        """
        self.client.require_same_settings()
        mode = self.client.dry_mode
        if mode is None and len(self.devices) < len(self.request.ipus):
            raise UnsupportedError(
                f"program {self.plan.name!r} computes no values, because not all of its {len(self.request.ipus)} IPUs are simulated "
                f"(simulated_ipus is {self.client.machine.num_simulated}): run it dry, in tilestep.dry_run() or by "
                "`tilestep run --dry-run`, or simulate all (TILESTEP_SIMULATED_IPUS, or simulated_ipus of the machine's file)"
            )
        if mode is not None or any_dry(columns):
            return self._dry_runs.run(columns, values, first, undonated or (), mode, done)
        runs = self._host_runs
        if not self.request.has_feeds:
            outcome = runs.run(columns, values, first, undonated or (), done)
            self.direct = runs.direct
            return outcome
        return run_on_worker(self.request.ipus[0], done, lambda: runs.run(columns, values, first, undonated or (), {}))

    @functools.cached_property
    def _host_runs(self) -> HostRuns:
        program = self.host_program
        return HostRuns(
            self.client.player.journal,
            self._planned_run(real_counters(program.counted)),
            program,
            self.outputs,
            self._host_devices,
            note_in_flight=None if self.in_flight is None else self.in_flight[1],
            calls_host=bool(self.plan.callbacks),
            has_feeds=self.request.has_feeds,
        )

    @functools.cached_property
    def _dry_runs(self) -> DryRuns:
        return DryRuns(
            lambda: self.client.player.journal,  # a machine beside the process's has one journal after the other
            self._planned_run(()),
            site_locations=self.plan.site_locations,
            results=self.outputs.specs,
            new_key=self._new_key,
        )

    def _planned_run(self, counters: tuple[tuple[int, int], ...]) -> PlannedRun:
        simulated = tuple(device.id for device in self.devices)
        return PlannedRun(self.plan.program, self.key, self.request.ipus, self.num_outputs, counters, self.source, simulated)

    def _source(self, name: str, hlo: bytes) -> ProgramSource:
        request = self.request
        return ProgramSource(
            name=name,
            code=request.code,
            num_replicas=request.num_replicas,
            num_partitions=request.num_partitions,
            hlo=hlo,
            options=request.plan_options,
            machine=self.client.machine,
        )
