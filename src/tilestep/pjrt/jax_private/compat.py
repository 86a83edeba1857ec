"""The private parts of JAX and jaxlib that the platform uses, but for MLIR. A new JAX breaks the platform here first.

Tested with jax 0.10.2 (Python 3.11) and 0.12.0 (Python 3.13).
"""

import contextlib
import dataclasses
import functools
import logging
import threading
import types
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

import jax
import jax.interpreters.mlir
import jaxlib.version
import numpy as np
from jax._src import buffer_callback, compilation_cache, compiler, core, sharding_impls, xla_bridge
from jax._src import callback as jax_callback
from jax._src import config as jax_config
from jax._src.array import ArrayImpl
from jax._src.dlpack import DLDeviceType
from jax._src.interpreters import mlir, pxla
from jax._src.lax import linalg
from jax._src.lib import _jax, xla_client
from jax._src.lib.mlir import ir
from jaxlib import _profiler, _xla  # a C extension without stubs
from jaxlib.mlir.dialects import stablehlo

from tilestep.pjrt.jax_private.versions import PROFILED, parse
from tilestep.protobuf import bytes_field

HostClient = Any
HostDevice = Any
CompileOptions = Any
Module = Any

# XLA:CPU expands operations that it has no code for, but an IPU has libraries for them. An IPU has streaming memory as well.
# Barriers must stay (cse_barrier_expander), because later passes would simplify across them. A fusion around each operation
# (fusion-wrapper) would stop these passes. XLA:CPU computes in f32 what an IPU computes in bf16, and widens 8-bit floats.
ANALYSIS_PASSES_OFF = (
    "fusion,cpu-instruction-fusion,tree_reduction_rewriter,library-rewriter,ynnpack-library-rewriter,dot-library-rewriter,"
    "select_and_scatter_expander,rng-expander,rng-bit-generator-expander,topk-decomposer,"
    "strip-memory-placement-annotations,cse_barrier_expander,fusion-wrapper,cpu-parallel-task-assigner,"
    "shape-canonicalizer,literal-canonicalizer,operand_upcaster,result_caster,all-reduce-promotion,float-normalization-bf16,"
    "float-normalization-f8e5m2,float-normalization-f8e4m3,float-normalization-f8e4m3fn,float-normalization-f8e4m3b11fnuz,"
    "float-normalization-f8e5m2fnuz,float-normalization-f8e4m3fnuz,float-normalization-f8e3m4"
)
# XLA:CPU's default. Without the emitters, as `XLA_FLAGS` may have it, a loop is made of each scatter before the HLO is taken.
# What newer versions do with an option that they may have dropped is not known.
ANALYSIS_OPTIONS = (("xla_cpu_use_fusion_emitters", True),) if parse(jax.__version__) < (0, 11, 0) else ()
# This pass takes a draw of random numbers that has not been expanded for an elementwise operation, and a failed check ends the process.
PASSES_OFF_WITH_DRAWS = ",reshape-mover"
# This one would make the reversed kernels of backward convolutions before a loop, and keep them. TensorFlow's backend has such a reversal
# and its convolution as one operation by then (graphcore/tensorflow plugin/poplar/driver/poplar_compiler.cc: FuseOpsEarly, then this pass).
PASSES_OFF_WITH_REVERSALS = ",while-loop-invariant-code-motion"

# Since JAX 0.12 `make_ir_context` gives a thread the context that it has, also while a block uses it.
_new_context: Final = getattr(mlir, "_create_ir_context", mlir.make_ir_context)
_CONTEXT_TURNS: Final = 100  # blocks for which an MLIR context serves, which keeps all types, places and constants that it has had
_idle_contexts: Final[list[tuple[Any, int]]] = []  # contexts that nobody uses now, and for how many blocks they have served


# ---------------------------------------------------------------------------------------------------------- registration


def register_platform(name: str, table: object, priority: int) -> None:
    """Makes a PJRT table a JAX platform. If its start fails, JAX says so only when a program asks for the platform."""
    xla_client.load_pjrt_plugin_with_c_api(name, table)
    xla_bridge.register_backend_factory(
        name,
        functools.partial(xla_bridge.make_pjrt_c_api_client, name, options=None),
        priority=priority,
        fail_quietly=True,
        experimental=False,
        make_topology=functools.partial(xla_client.make_c_api_device_topology, table),
        c_api=table,
    )


def can_profile() -> bool:
    """Whether this jaxlib's profiler is known to take our table (versions.PROFILED)."""
    return jaxlib.version.__version__ in PROFILED


def register_profiler(table: object) -> None:
    """Lets sessions of jax.profiler ask the extension for profilers of a PJRT table."""
    _profiler.register_plugin_profiler(table)


def watch_guarded_reads(tell: Callable[[bool], None]) -> None:
    """Calls `tell` when JAX begins, in any thread, to guard transfers from devices, and when it guards none any more."""
    state: Any = jax_config.transfer_guard_device_to_host
    of_process, of_thread = state._update_global_hook, state._update_thread_local_hook
    guarding: set[int] = set()  # threads, and 0 for the process
    lock = threading.Lock()

    def note(thread: int, level: str | None) -> None:
        with lock:
            (guarding.discard if level in (None, "allow") else guarding.add)(thread)
            tell(bool(guarding))

    def for_process(level: str | None) -> None:
        of_process(level)
        note(0, level)

    def for_thread(level: str | None) -> None:
        of_thread(level)
        note(threading.get_ident(), level)

    state._add_hooks(for_process, for_thread)
    inside = state.get_local()  # a `with` block around the platform's start may have set it
    note(threading.get_ident(), inside if isinstance(inside, str) else None)


def intercept_callbacks(name: str, keep: Callable[[Callable[..., Any]], int]) -> None:
    """Lets platform `name` lower Python callbacks as CPU does, with the numbers that `keep` gives them.

    JAX numbers a program's callbacks by their index in a list for its own client. A plugin never sees the list.
    """
    original = jax_callback.emit_python_callback

    def as_cpu(rule: Callable[..., Any], ctx: Any, *args: Any, **options: Any) -> Any:
        module = ctx.module_context
        numbered = _Numbered(keep)
        results = rule(
            ctx.replace(module_context=module.replace(platforms=("cpu",), backend=None, host_callbacks=numbered)), *args, **options
        )
        for callback_object in numbered.kept:
            module.add_host_callback(callback_object)  # as on CPU: JAX keeps it, and sees that the program calls Python
        return results

    @functools.wraps(original)
    def emit(ctx: Any, callback: Any, token: Any, operands: Any, operand_avals: Any, result_avals: Any, **options: Any) -> Any:
        arguments = (ctx, callback, token, operands, operand_avals, result_avals)
        is_ours = tuple(ctx.module_context.platforms) == (name,)
        return as_cpu(original, *arguments, **options) if is_ours else original(*arguments, **options)

    jax_callback.emit_python_callback = emit
    jax.interpreters.mlir.emit_python_callback = emit  # imported there by name
    primitive = buffer_callback.buffer_callback_p
    entry = mlir._lowerings[primitive]
    mlir._platform_specific_lowerings[name][primitive] = dataclasses.replace(entry, rule=functools.partial(as_cpu, entry.rule))

    compile_and_load = compiler.backend_compile_and_load

    @functools.wraps(compile_and_load)
    def without_callbacks(backend: Any, module: Any, devices: Any, options: Any, host_callbacks: Sequence[Any]) -> Any:
        return compile_and_load(backend, module, devices, options, () if backend.platform == name else host_callbacks)

    compiler.backend_compile_and_load = without_callbacks  # pyrefly: ignore[bad-assignment]


def look_before_compiling(name: str, look: Callable[[Any, int], None]) -> None:
    """Calls `look` with the module and the number of devices of each program for platform `name`, before XLA sees it."""
    compile_and_load = compiler.backend_compile_and_load

    @functools.wraps(compile_and_load)
    def looked_at(backend: Any, module: Any, devices: Any, options: Any, host_callbacks: Sequence[Any]) -> Any:
        if backend.platform == name:
            look(module, len(devices))
        return compile_and_load(backend, module, devices, options, host_callbacks)

    compiler.backend_compile_and_load = looked_at  # pyrefly: ignore[bad-assignment]


def has_started() -> bool:
    """Whether JAX has started its platforms, and not cleared them since."""
    return xla_bridge.backends_are_initialized()


def look_before_devices(name: str, look: Callable[[], None]) -> None:
    """Calls `look` before JAX says which devices platform `name` has, for which it asks the platform only once."""
    get_backend: Any = xla_bridge.get_backend

    @functools.wraps(get_backend)
    def looked_at(platform: Any = None) -> Any:
        found = get_backend(platform)
        if found.platform == name and found is not platform:  # which may be a client itself
            look()
        return found

    looked_at.cache_clear = get_backend.cache_clear  # pyrefly: ignore[missing-attribute]  # JAX clears its cached function so
    xla_bridge.get_backend = looked_at


def cache_like_cpu(name: str) -> None:
    """Lets JAX's persistent compilation cache take programs of platform `name`, because JAX has a fixed list of platforms.

    Programs that call Python functions are left out, because the functions live in one process. Newer JAX would store them.
    """
    used = compilation_cache.is_cache_used

    @functools.wraps(used)
    def is_cache_used(backend: Any) -> bool:
        return used(types.SimpleNamespace(platform="cpu") if backend.platform == name else backend)

    compilation_cache.is_cache_used = is_cache_used
    compile_and_write = compiler._compile_and_write_cache

    @functools.wraps(compile_and_write)
    def leaving_callbacks_out(
        backend: Any, module: Any, devices: Any, options: Any, host_callbacks: Sequence[Any], module_name: str, cache_key: str
    ) -> Any:
        if backend.platform != name or not host_callbacks:
            return compile_and_write(backend, module, devices, options, host_callbacks, module_name, cache_key)
        priority = logging.WARNING if jax_config.explain_cache_misses.value else logging.DEBUG
        compiler.logger.log(priority, "Not writing persistent cache entry for '%s' because it uses host callbacks", module_name)
        return compiler.backend_compile_and_load(backend, module, devices, options, host_callbacks)

    compiler._compile_and_write_cache = leaving_callbacks_out  # pyrefly: ignore[bad-assignment]


def analyse_like_cpu(name: str, host_client: Callable[[], HostClient]) -> None:
    """Lets `lower().cost_analysis()` for platform `name` count as on CPU, because JAX asks no plugin before it compiles."""
    original = pxla.MeshComputation.cost_analysis

    @functools.wraps(original)
    def cost_analysis(self: Any) -> dict[str, float]:
        if self.compile_args["backend"].platform != name:
            return original(self)
        return _jax.hlo_module_cost_analysis(host_client(), self.hlo().as_hlo_module())

    pxla.MeshComputation.cost_analysis = cost_analysis  # pyrefly: ignore[method-assign]


def share_like_cpu(name: str, on_host: Callable[[np.ndarray[Any, Any]], Any]) -> None:
    """Lets DLPack export one-device arrays of platform `name` as host memory, because JAX exports those of CPU and GPU only.

    Args: on_host: makes an array of XLA:CPU in the memory of a NumPy array.
    """
    device_of, capsule_of = ArrayImpl.__dlpack_device__, ArrayImpl.__dlpack__
    cpu = (DLDeviceType.kDLCPU, 0)

    def is_ours(array: Any) -> bool:
        return {device.platform for device in array.sharding.device_set} == {name} and len(array.sharding.device_set) == 1

    @functools.wraps(device_of)
    def device(self: Any) -> Any:
        return cpu if is_ours(self) else device_of(self)

    @functools.wraps(capsule_of)
    def capsule(self: Any, *, dl_device: Any = None, copy: bool | None = None, **options: Any) -> Any:
        if not is_ours(self) or dl_device not in (None, cpu):
            return capsule_of(self, dl_device=dl_device, copy=copy, **options)
        values = np.asarray(self)
        return capsule_of(on_host(values.copy() if copy else values), **options)

    ArrayImpl.__dlpack_device__ = device  # pyrefly: ignore[method-assign]
    ArrayImpl.__dlpack__ = capsule  # pyrefly: ignore[method-assign]


def compile_ahead_alone(name: str) -> None:
    """Lets JAX compile programs for a topology of platform `name` without the platform's client in this process.

    With the client, JAX would hold the interpreter while it waits for another thread, and that thread could never compile.
    """
    original = compiler._get_cross_compile_backend

    @functools.wraps(original)
    def helper(backend: Any) -> Any:
        return None if backend.platform == name else original(backend)

    compiler._get_cross_compile_backend = helper  # pyrefly: ignore[bad-assignment]


@functools.cache
def wait_in_the_callers_thread(
    waits: Callable[[Callable[..., Any]], Callable[..., Any]], answers: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Wraps JAX's functions that wait for arrays, and its method that asks whether one is ready. Does so once.

    The former are `x.block_until_ready()` and `jax.block_until_ready` of several.
    """
    implementation: Any = ArrayImpl
    implementation.is_ready = answers(implementation.is_ready)
    ArrayImpl.block_until_ready = waits(ArrayImpl.block_until_ready)  # pyrefly: ignore[method-assign]
    xla_client.batched_block_until_ready = waits(xla_client.batched_block_until_ready)


class _Numbered(list[Any]):
    """A program's list of callbacks for JAX: each appended callback gets a number from `keep`, and the length is the number plus 1."""

    def __init__(self, keep: Callable[[Callable[..., Any]], int]) -> None:
        super().__init__()
        self._keep = keep
        self._last = -1
        self.kept: list[Any] = []

    def append(self, callback: Any) -> None:
        self._last = self._keep(callback)
        self.kept.append(callback)

    def __len__(self) -> int:
        return self._last + 1


# ---------------------------------------------------------------------------------------------------------------- values


def make_host_client(num_devices: int) -> HostClient:
    """A client of XLA:CPU of our own, with one device for each IPU."""
    return xla_client.make_cpu_client(num_devices=num_devices, asynchronous=True)


@functools.cache
def single_device_sharding(device: HostDevice, memory_kind: str) -> Any:
    """The sharding of a value on one device and memory."""
    return sharding_impls.SingleDeviceSharding(device, memory_kind=memory_kind)


@functools.cache
def _aval(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return core.ShapedArray(shape, dtype)


def put(value: np.ndarray[Any, Any], device: HostDevice, memory_kind: str) -> Any:
    """A one-device array in the memory of a NumPy array if XLA:CPU can use that; else a copy."""
    semantics = xla_client.HostBufferSemantics.ZERO_COPY
    aval = _aval(value.shape, value.dtype)
    return _jax.batched_device_put(aval, single_device_sharding(device, memory_kind), [value], [device], True, False, semantics, True)


# (DLPack tensor, host device, None) -> a one-device array, without a copy if the tensor has XLA:CPU's alignment. C calls it too.
take_over = _jax.dlpack_managed_tensor_to_buffer


def copy(array: Any, device: HostDevice, memory_kind: str) -> Any:
    """A copy of a one-device array on a device, made in the background."""
    sharding = single_device_sharding(device, memory_kind)
    always = _jax.ArrayCopySemantics.ALWAYS_COPY
    (result,) = _jax.batched_copy_array_to_devices_with_sharding([array], [sharding._internal_device_list], [sharding], [always])
    return result


def minor_to_major(array: Any) -> tuple[int, ...] | None:
    """The order of an array's dimensions in memory; None for an array that does not say, which is row-major."""
    layout = array.format.layout
    return None if layout is None else tuple(reversed(layout.major_to_minor))


def replicated_over(devices: Sequence[HostDevice], memory_kind: str) -> Any:
    """A sharding under which equal one-device arrays in memories of one kind make one array."""
    mesh = jax.sharding.Mesh(np.array(devices, dtype=object), ("device",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(), memory_kind=memory_kind)


# jaxlib before 0.12 checks its own results, and refuses a device list that it did not make.
_UNCHECKED = {"_skip_checks": True} if "_skip_checks" in (_jax.array_result_handler.__doc__ or "") else {}


def result_handler(dims: tuple[int, ...], dtype: np.dtype[Any], sharding: Any) -> Any:
    """A function that makes an array of a program's result. JAX's other way costs twice as much, and five times on several devices.

    Args: dims: on one device. sharding: one device's, or `replicated_over` all of them.
    """
    return _jax.array_result_handler(_aval(dims, dtype), sharding, committed=True, **_UNCHECKED)


def join(arrays: Sequence[Any], sharding: Any) -> Any:
    """One array of one-device arrays. It does not read their values."""
    return ArrayImpl(arrays[0].aval, sharding, arrays, committed=True, _skip_checks=True)


# --------------------------------------------------------------------------------------------------------------- compile


@contextlib.contextmanager
def make_context() -> Generator[Any]:
    """An MLIR context with every dialect that JAX emits, for a `with` block: nobody else has it meanwhile.

    To make one takes as long as to read a small program, so that one that a block has left serves further blocks.
    """
    try:
        context, turns = _idle_contexts.pop()
    except IndexError:
        context, turns = _new_context(), 0
    with context:
        yield context
    context.allow_unregistered_dialects = False  # the block may have allowed them
    if turns < _CONTEXT_TURNS:
        _idle_contexts.append((context, turns + 1))


def parse_program(code: bytes, context: Any) -> Module:
    """Reads a program as JAX sends it to a plugin: a portable StableHLO artifact, or plain MLIR."""
    if b"StableHLO_v" in code[:40]:
        return _jax.mlir.deserialize_portable_artifact(code, context)
    return ir.Module.parse(code)


def parse_options(serialized: bytes) -> CompileOptions:
    """Reads a serialised CompileOptionsProto."""
    return xla_client.CompileOptions.ParseFromString(serialized)


def compile_module(
    client: HostClient, module: Module, devices: Sequence[HostDevice], options: CompileOptions, callbacks: Sequence[Any]
) -> Any:
    """Compiles for XLA:CPU. The program calls `callbacks` by their index."""
    device_list = _jax.DeviceList(tuple(devices))
    return (
        client.compile_and_load(module, device_list, options, list(callbacks))
        if callbacks
        else client.compile_and_load(module, device_list, options)
    )


def load_lapack() -> None:
    """Loads LAPACK's functions, as JAX does when it lowers a call of one. Without them a serialised program crashes."""
    linalg.initialize_lapack()


def serialize(client: HostClient, executable: Any) -> bytes:
    """XLA:CPU's program as bytes."""
    return client.serialize_executable(executable)


def deserialize(client: HostClient, data: bytes, devices: Sequence[HostDevice], options: CompileOptions) -> Any:
    """The program that `serialize` made bytes of, ready to run on `devices`."""
    return client.deserialize_executable(data, _jax.DeviceList(tuple(devices)), options)


def on_every_compile(name: str, hook: Callable[[bytes], Any]) -> None:
    """Calls `hook` with each HLO module that XLA:CPU compiles here, before code generation. Its exception ends the compilation."""
    _xla.register_xla_transform(name, 0, hook)


def hlo_text(proto: bytes) -> str:
    """Text of a serialised HLO module."""
    return xla_client.hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string()


def program_results(program_shape: bytes) -> Iterator[tuple[tuple[int, ...], np.dtype[Any] | None, tuple[int, ...]]]:
    """(dimensions, dtype, minor_to_major) of each result of a serialised ProgramShapeProto; dtype None for a token."""
    shape = xla_client.hlo.XlaComputation(bytes_field(4, program_shape)).program_shape().result_shape()
    for leaf in shape.tuple_shapes() if shape.is_tuple() else (shape,):
        if leaf.is_token():
            yield (), None, ()
            continue
        dims = tuple(leaf.dimensions())
        layout = leaf.layout()
        minor_to_major = tuple(layout.minor_to_major()) if layout is not None else tuple(reversed(range(len(dims))))
        yield dims, np.dtype(leaf.numpy_dtype()), minor_to_major


def program_arguments(program_shape: bytes) -> Iterator[tuple[int, ...]]:
    """Dimensions of each argument of a serialised ProgramShapeProto; () for a token, because XLA aborts if a token is asked."""
    for shape in xla_client.hlo.XlaComputation(bytes_field(4, program_shape)).program_shape().parameter_shapes():
        yield () if shape.is_token() else tuple(shape.dimensions())


def stablehlo_version() -> list[int]:
    """The newest StableHLO that this jaxlib reads."""
    return [int(part) for part in stablehlo.get_current_version().split(".")]


def make_client(platform: str, options: dict[str, str]) -> Any:
    """Another client of a registered plugin. JAX takes a backend from the devices that it is given, so they work as any others.

    Args: options: that the plugin gets.
    """
    if not xla_client.pjrt_plugin_initialized(platform):
        xla_client.initialize_pjrt_plugin(platform)
    return xla_client.make_c_api_client(platform, options, None)


@functools.cache
def analysis_host(num_devices: int) -> HostClient:
    """XLA:CPU, which partitions programs for so many devices and computes nothing."""
    return make_host_client(num_devices)
