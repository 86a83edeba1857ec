"""Entry points about programs: compile, describe, destroy. Running a program is in C (native/execute.c)."""

import functools
import hashlib
from collections.abc import Callable, Sequence
from ctypes import addressof, c_char_p, c_void_p, cast, memmove
from typing import Any, TypeVar

import numpy as np

from tilestep.machine.spec import MachineSpec
from tilestep.messages import shown
from tilestep.pjrt import _native
from tilestep.pjrt.programs.executable import LoadedExecutable
from tilestep.pjrt.programs.outputs import hlo_with_config, output_layouts, parameter_layouts, without_counter_shardings
from tilestep.pjrt.programs.serialized import pack, unpack
from tilestep.pjrt.running.wait_pool import WAIT_POOL
from tilestep.pjrt.table import capi
from tilestep.pjrt.table.client import Client
from tilestep.pjrt.table.device import nothing_to_delete
from tilestep.pjrt.table.entry_points import answers, entry_point, int32s, int64s, named_values, own_text, pointers, read_bytes, sizes, text
from tilestep.pjrt.table.layouts import layout
from tilestep.plan.steps import Program
from tilestep.sim.cycles.body import body_cost
from tilestep.units import seconds_from_cycles

_FORMAT = "hlo_with_config"  # without the configuration JAX loses the output shardings
AnswerT = TypeVar("AnswerT")


def _kept(make: Callable[[LoadedExecutable], AnswerT]) -> Callable[[LoadedExecutable], AnswerT]:
    """Makes an answer once and keeps it as long as the program, because JAX holds pointers into it."""

    @functools.wraps(make)
    def answer(executable: LoadedExecutable) -> AnswerT:
        if make.__name__ not in executable.metadata:
            executable.metadata[make.__name__] = make(executable)
        return executable.metadata[make.__name__]

    return answer


# ---------------------------------------------------------------------------------------------------------- metadata


@_kept
def device_addresses(executable: LoadedExecutable) -> Any:
    """PJRT_Device*, in order."""
    return pointers([device.address for device in executable.devices])


@_kept
def logical_ids(executable: LoadedExecutable) -> Any:
    """(replica, partition) of each device, in order."""
    array = (capi.PJRT_LogicalDeviceIds * len(executable.devices))()
    for slot, device in zip(array, executable.devices, strict=True):
        replica, partition = np.argwhere(executable.request.assignment == device.id)[0]
        slot.replica, slot.partition = int(replica), int(partition)
    return array


@_kept
def optimized_program(executable: LoadedExecutable) -> bytes:
    """The HLO that XLA:CPU runs, with the part of its configuration that JAX reads."""
    host = executable.host_executable_if_any
    module = executable.plan.hlo if host is None else host.hlo_modules()[0].as_serialized_hlo_module_proto()
    if executable.counted:
        module = without_counter_shardings(module, executable.num_outputs)
    return hlo_with_config(module, num_replicas=executable.num_replicas, num_partitions=executable.num_partitions)


@_kept
def cost(executable: LoadedExecutable) -> tuple[Any, list[Any]]:
    """XLA's figures, and ours beside them."""
    xla: dict[str, float] = {name: float(value) for name, value in executable.host_program.executable.cost_analysis().items()}
    return named_values({**xla, **cost_figures(executable.plan.program, executable.client.machine, executable.request.ipus)})


def cost_figures(program: Program, machine: MachineSpec, ipus: Sequence[int]) -> dict[str, float]:
    """The figures of cost_analysis() about the emulated machine: one run, each data-dependent loop and branch taken once, no host I/O."""
    body = body_cost(program, machine, ipus)
    cycles = sum(part.total for part in (body.fixed, *body.counted.values()))
    return {
        "ipu cycles": float(cycles),
        "ipu seconds": seconds_from_cycles(cycles, machine.ipu.clock_hz),
        "ipu peak tile bytes": float(program.memory.peak_bytes),
    }


@_kept
def output_types(executable: LoadedExecutable) -> Any:
    """PJRT_Buffer_Type of each output."""
    return int32s([shape.type for shape in executable.shapes])


@_kept
def output_dims(executable: LoadedExecutable) -> tuple[Any, Any]:
    """All outputs' dimensions one after the other, and each output's rank."""
    specs = executable.outputs.specs
    return int64s([dim for dims, _ in specs for dim in dims]), sizes([len(dims) for dims, _ in specs])


@_kept
def output_kinds(executable: LoadedExecutable) -> tuple[Any, Any]:
    """Names of the outputs' memory kinds, and the names' lengths."""
    names = [text(kind) for kind in executable.outputs.memory_kinds]
    return pointers([address for address, _ in names]), sizes([size for _, size in names])


@_kept
def output_layout_addresses(executable: LoadedExecutable) -> tuple[Any, int]:
    """PJRT_Layouts_MemoryLayout* of each output, and how many there are."""
    forms = output_layouts(executable.outputs.specs, executable.host_executable_if_any)
    return pointers([id(layout(form)) for form in forms]), len(forms)


@_kept
def parameter_layout_addresses(executable: LoadedExecutable) -> tuple[Any, int]:
    """PJRT_Layouts_MemoryLayout* of each argument, and how many there are."""
    forms = parameter_layouts(executable.plan.hlo, executable.host_executable_if_any)
    return pointers([id(layout(form)) for form in forms]), len(forms)


@_kept
def name(executable: LoadedExecutable) -> tuple[Any, int]:
    """C string, and its size."""
    return own_text(executable.plan.name)


@_kept
def fingerprint(executable: LoadedExecutable) -> tuple[Any, int]:
    """C string, and its size: equal for equal programs on equal machines, whether compiled here or by another process."""
    request = executable.request
    planned_for = repr((executable.client.machine, request.plan_options))
    return own_text(hashlib.sha256(request.code + request.options + planned_for.encode()).hexdigest())


# ------------------------------------------------------------------------------------------------------ entry points


def _executable(address: int | None) -> LoadedExecutable:
    return _native.object_at(address)


def _compile(client: Client, program_address: int | None, options: bytes) -> int:
    if program_address is None:
        raise ValueError("there is no program to compile")
    program = capi.PJRT_Program.from_address(program_address)
    form = read_bytes(program.format, program.format_size).decode()
    if form != "mlir":
        raise NotImplementedError(f"programs of format {shown(form)} are not understood; JAX sends 'mlir'")
    with WAIT_POOL.busy():  # a Ctrl-C ends the wait of the thread that called JAX; the pool's own thread finishes the compilation
        return _native.own(LoadedExecutable(client, read_bytes(program.code, program.code_size), options))


@entry_point("PJRT_Client_Compile")
def client_compile(args: capi.PJRT_Client_Compile_Args) -> None:
    args.executable = _compile(_native.object_at(args.client), args.program, read_bytes(args.compile_options, args.compile_options_size))


@entry_point("PJRT_Compile")
def compile_ahead(args: capi.PJRT_Compile_Args) -> None:
    # A topology is a Client of another machine, for which programs are only compiled.
    args.executable = _compile(_native.object_at(args.topology), args.program, read_bytes(args.compile_options, args.compile_options_size))


@entry_point("PJRT_Client_Load")
def client_load(args: capi.PJRT_Client_Load_Args) -> None:
    executable, client = _executable(args.executable), _native.object_at(args.client)
    if executable.client is not client:  # compiled ahead of time
        serialized = unpack(pack(executable.serialized()))
        executable = LoadedExecutable(client, serialized.code, serialized.options, serialized)
    args.loaded_executable = _native.own(executable)


@entry_point("PJRT_Executable_Serialize")
def executable_serialize(args: capi.PJRT_Executable_Serialize_Args) -> None:
    data = pack(_executable(args.executable).serialized())
    args.serialized_bytes, args.serialized_bytes_size = cast(c_char_p(data), c_void_p).value, len(data)
    args.serialized_executable, args.serialized_executable_deleter = _native.own(data), _native.releaser()


@entry_point("PJRT_Executable_DeserializeAndLoad")
def executable_deserialize(args: capi.PJRT_Executable_DeserializeAndLoad_Args) -> None:
    serialized = unpack(read_bytes(args.serialized_executable, args.serialized_executable_size))
    options = read_bytes(args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size) or serialized.options
    args.loaded_executable = _native.own(LoadedExecutable(_native.object_at(args.client), serialized.code, options, serialized))


@entry_point("PJRT_LoadedExecutable_Delete")
def loaded_executable_delete(args: capi.PJRT_LoadedExecutable_Delete_Args) -> None:
    _executable(args.executable).deleted = 1


@entry_point("PJRT_Executable_OptimizedProgram")
def executable_optimized_program(args: capi.PJRT_Executable_OptimizedProgram_Args) -> None:
    if args.program is None:
        raise ValueError("there is no place for the program")
    program = capi.PJRT_Program.from_address(args.program)
    code = optimized_program(_executable(args.executable))
    program.format, program.format_size = text(_FORMAT)
    program.code_size = len(code)
    if program.code:  # JAX calls twice: first for the size, then with memory of that size
        memmove(program.code, code, len(code))


@entry_point("PJRT_Executable_GetCompiledMemoryStats")
def executable_memory(args: capi.PJRT_Executable_GetCompiledMemoryStats_Args) -> None:
    stats = _executable(args.executable).host_program.executable.get_compiled_memory_stats()
    for name, *_ in args._fields_[3:]:  # after struct_size, extension_start and executable
        setattr(args, name, getattr(stats, name, 0))


@entry_point("PJRT_ExecuteContext_Create")
def context_create(args: capi.PJRT_ExecuteContext_Create_Args) -> None:
    args.context = _native.own(object())


# ----------------------------------------------------------------------------------------------------------- answers


def _placed(kept: tuple[Any, int]) -> tuple[int, int]:
    """(where a C value is, what goes with it)."""
    return addressof(kept[0]), kept[1]


def _dims(executable: LoadedExecutable) -> tuple[int, int, int]:
    dims, ranks = output_dims(executable)
    return executable.num_outputs, addressof(dims), addressof(ranks)


def _kinds(executable: LoadedExecutable) -> tuple[int, int, int]:
    names, lengths = output_kinds(executable)
    return executable.num_outputs, addressof(names), addressof(lengths)


answers("PJRT_LoadedExecutable_GetExecutable", "executable", _native.own)
answers("PJRT_Executable_Name", "executable_name executable_name_size", lambda executable: _placed(name(executable)))
answers(
    "PJRT_Executable_SizeOfGeneratedCodeInBytes",
    "size_in_bytes",
    lambda executable: executable.host_program.executable.size_of_generated_code_in_bytes(),
)
answers(
    "PJRT_LoadedExecutable_AddressableDevices",
    "addressable_devices num_addressable_devices",
    lambda executable: (addressof(device_addresses(executable)), len(executable.devices)),
)
answers(
    "PJRT_LoadedExecutable_AddressableDeviceLogicalIds",
    "addressable_device_logical_ids num_addressable_device_logical_ids",
    lambda executable: (addressof(logical_ids(executable)), len(executable.devices)),
)
# The answers own their bytes, so the handle 1 stands for nothing: JAX only wants one that is not null.
answers(
    "PJRT_LoadedExecutable_GetDeviceAssignment",
    "serialized_bytes serialized_bytes_size serialized_device_assignment serialized_device_assignment_deleter",
    lambda executable: (*text(executable.request.serialized_assignment), 1, nothing_to_delete()),
)
answers(
    "PJRT_Executable_GetCompileOptions",
    "serialized_bytes serialized_bytes_size serialized_compile_options serialized_compile_options_deleter",
    lambda executable: (*text(executable.request.options), 1, nothing_to_delete()),
)
answers(
    "PJRT_Executable_GetCostAnalysis",
    "properties num_properties",
    lambda executable: _placed((cost(executable)[0], len(cost(executable)[0]))),
)
answers(
    "PJRT_Executable_OutputElementTypes",
    "output_types num_output_types",
    lambda executable: (addressof(output_types(executable)), executable.num_outputs),
)
answers("PJRT_Executable_OutputDimensions", "num_outputs dims dim_sizes", _dims)
answers("PJRT_Executable_OutputMemoryKinds", "num_outputs memory_kinds memory_kind_sizes", _kinds)
answers(
    "PJRT_Layouts_PJRT_Executable_GetOutputLayouts",
    "layouts num_outputs",
    lambda executable: _placed(output_layout_addresses(executable)),
)
answers(
    "PJRT_Layouts_PJRT_Executable_GetParameterLayouts",
    "layouts num_parameters",
    lambda executable: _placed(parameter_layout_addresses(executable)),
)
_FINGERPRINT = "executable_fingerprint executable_fingerprint_size"
answers("PJRT_Executable_Fingerprint", _FINGERPRINT, lambda executable: _placed(fingerprint(executable)))
answers("PJRT_LoadedExecutable_Fingerprint", _FINGERPRINT, lambda executable: _placed(fingerprint(executable)))
