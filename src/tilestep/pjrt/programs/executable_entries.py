"""Entries of the table that are about programs: compile, describe, destroy. Running one is in C (native/execute.c)."""

from __future__ import annotations

from ctypes import addressof, c_char_p, c_void_p, cast, memmove

from tilestep.pjrt import _native
from tilestep.pjrt.programs.executable import LoadedExecutable
from tilestep.pjrt.programs.serialized import pack, unpack
from tilestep.pjrt.running.wait_pool import WAITERS
from tilestep.pjrt.table import capi
from tilestep.pjrt.table.client import Client, the_client
from tilestep.pjrt.table.device import nothing_to_delete
from tilestep.pjrt.table.entry_points import entry_point, read_bytes, text

_FORMAT = "hlo_with_config"  # without the configuration JAX loses the output shardings


def _executable(address: int | None) -> LoadedExecutable:
    return _native.object_at(address)


def _compile(client: Client, program_address: int | None, options: bytes) -> int:
    if program_address is None:
        raise ValueError("there is no program to compile")
    program = capi.PJRT_Program.from_address(program_address)
    form = read_bytes(program.format, program.format_size).decode()
    if form != "mlir":
        raise NotImplementedError(f"programs of format {form!r} are not understood; JAX sends 'mlir'")
    with WAITERS.busy():  # Ctrl-C frees the thread that asked, not this one
        return _native.own(LoadedExecutable(client, read_bytes(program.code, program.code_size), options))


@entry_point("PJRT_Client_Compile")
def client_compile(args: capi.PJRT_Client_Compile_Args) -> None:
    args.executable = _compile(the_client(), args.program, read_bytes(args.compile_options, args.compile_options_size))


@entry_point("PJRT_Compile")
def compile_ahead(args: capi.PJRT_Compile_Args) -> None:
    args.executable = _compile(_native.object_at(args.topology), args.program, read_bytes(args.compile_options, args.compile_options_size))


@entry_point("PJRT_Client_Load")
def client_load(args: capi.PJRT_Client_Load_Args) -> None:
    executable, client = _executable(args.executable), the_client()
    if executable.client is not client:  # compiled ahead of time
        stored = unpack(pack(executable))
        executable = LoadedExecutable(client, stored.code, stored.options, stored)
    args.loaded_executable = _native.own(executable)


@entry_point("PJRT_Executable_Serialize")
def executable_serialize(args: capi.PJRT_Executable_Serialize_Args) -> None:
    data = pack(_executable(args.executable))
    args.serialized_bytes, args.serialized_bytes_size = cast(c_char_p(data), c_void_p).value, len(data)
    args.serialized_executable, args.serialized_executable_deleter = _native.own(data), _native.releaser()


@entry_point("PJRT_Executable_DeserializeAndLoad")
def executable_deserialize(args: capi.PJRT_Executable_DeserializeAndLoad_Args) -> None:
    stored = unpack(read_bytes(args.serialized_executable, args.serialized_executable_size))
    options = read_bytes(args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size) or stored.options
    args.loaded_executable = _native.own(LoadedExecutable(the_client(), stored.code, options, stored))


@entry_point("PJRT_LoadedExecutable_GetExecutable")
def loaded_executable_get(args: capi.PJRT_LoadedExecutable_GetExecutable_Args) -> None:
    args.executable = _native.own(_executable(args.loaded_executable))


@entry_point("PJRT_LoadedExecutable_Delete")
def loaded_executable_delete(args: capi.PJRT_LoadedExecutable_Delete_Args) -> None:
    _executable(args.executable).deleted = 1


@entry_point("PJRT_Executable_Name")
def executable_name(args: capi.PJRT_Executable_Name_Args) -> None:
    args.executable_name, args.executable_name_size = text(_executable(args.executable).name)


@entry_point("PJRT_Executable_SizeOfGeneratedCodeInBytes")
def executable_code_size(args: capi.PJRT_Executable_SizeOfGeneratedCodeInBytes_Args) -> None:
    args.size_in_bytes = _executable(args.executable).host_executable.size_of_generated_code_in_bytes()


@entry_point("PJRT_LoadedExecutable_AddressableDevices")
def executable_devices(args: capi.PJRT_LoadedExecutable_AddressableDevices_Args) -> None:
    executable = _executable(args.executable)
    args.addressable_devices, args.num_addressable_devices = addressof(executable.host_device_addresses), len(executable.devices)


@entry_point("PJRT_LoadedExecutable_AddressableDeviceLogicalIds")
def executable_logical_ids(args: capi.PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args) -> None:
    executable = _executable(args.executable)
    args.addressable_device_logical_ids = addressof(executable.logical_ids)
    args.num_addressable_device_logical_ids = len(executable.devices)


@entry_point("PJRT_LoadedExecutable_GetDeviceAssignment")
def executable_assignment(args: capi.PJRT_LoadedExecutable_GetDeviceAssignment_Args) -> None:
    args.serialized_bytes, args.serialized_bytes_size = text(_executable(args.executable).serialized_assignment)
    args.serialized_device_assignment, args.serialized_device_assignment_deleter = 1, nothing_to_delete()


@entry_point("PJRT_Executable_GetCompileOptions")
def executable_options(args: capi.PJRT_Executable_GetCompileOptions_Args) -> None:
    args.serialized_bytes, args.serialized_bytes_size = text(_executable(args.executable).options)
    args.serialized_compile_options, args.serialized_compile_options_deleter = 1, nothing_to_delete()


@entry_point("PJRT_Executable_OptimizedProgram")
def executable_optimized_program(args: capi.PJRT_Executable_OptimizedProgram_Args) -> None:
    if args.program is None:
        raise ValueError("there is no place for the program")
    program = capi.PJRT_Program.from_address(args.program)
    code = _executable(args.executable).optimized_program
    program.format, program.format_size = text(_FORMAT)
    program.code_size = len(code)
    if program.code:  # asked a second time, with room for it
        memmove(program.code, code, len(code))


@entry_point("PJRT_Executable_GetCostAnalysis")
def executable_cost(args: capi.PJRT_Executable_GetCostAnalysis_Args) -> None:
    figures = _executable(args.executable).cost[0]
    args.properties, args.num_properties = addressof(figures), len(figures)


@entry_point("PJRT_Executable_GetCompiledMemoryStats")
def executable_memory(args: capi.PJRT_Executable_GetCompiledMemoryStats_Args) -> None:
    stats = _executable(args.executable).host_executable.get_compiled_memory_stats()
    for name, _ in args._fields_[3:]:  # type: ignore[misc]  # after struct_size, extension_start and executable
        setattr(args, name, getattr(stats, name, 0))


@entry_point("PJRT_Executable_OutputElementTypes")
def executable_output_types(args: capi.PJRT_Executable_OutputElementTypes_Args) -> None:
    executable = _executable(args.executable)
    args.output_types, args.num_output_types = addressof(executable.output_types), executable.num_outputs


@entry_point("PJRT_Executable_OutputDimensions")
def executable_output_dims(args: capi.PJRT_Executable_OutputDimensions_Args) -> None:
    executable = _executable(args.executable)
    dims, ranks = executable.output_dims
    args.num_outputs, args.dims, args.dim_sizes = executable.num_outputs, addressof(dims), addressof(ranks)


@entry_point("PJRT_Executable_OutputMemoryKinds")
def executable_output_kinds(args: capi.PJRT_Executable_OutputMemoryKinds_Args) -> None:
    executable = _executable(args.executable)
    names, lengths = executable.output_kinds
    args.num_outputs, args.memory_kinds, args.memory_kind_sizes = executable.num_outputs, addressof(names), addressof(lengths)


@entry_point("PJRT_Executable_Fingerprint")
def executable_fingerprint(args: capi.PJRT_Executable_Fingerprint_Args) -> None:
    args.executable_fingerprint, args.executable_fingerprint_size = text(_executable(args.executable).fingerprint)


@entry_point("PJRT_LoadedExecutable_Fingerprint")
def loaded_executable_fingerprint(args: capi.PJRT_LoadedExecutable_Fingerprint_Args) -> None:
    args.executable_fingerprint, args.executable_fingerprint_size = text(_executable(args.executable).fingerprint)


@entry_point("PJRT_ExecuteContext_Create")
def context_create(args: capi.PJRT_ExecuteContext_Create_Args) -> None:
    args.context = _native.own(object())
