"""Compiles a session's step, or takes it from a file."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, final

import jax

from tilestep.onnx.interpreter.values import Array
from tilestep.popart.devices.device_info import DeviceInfo
from tilestep.popart.diagnostics.log import Level, log
from tilestep.popart.enums import DeviceType, SyncPattern
from tilestep.popart.exceptions import popart_exception, poplar_runtime_error
from tilestep.popart.ops.host import aborted
from tilestep.popart.options import SessionOptions
from tilestep.popart.session.executables import (
    SUFFIX,
    Executable,
    Owner,
    exported,
    fingerprint,
    loaded,
    most_program_bytes,
    read,
    save,
)
from tilestep.popart.session.feeds import Feeds
from tilestep.popart.session.plan import SessionPlan
from tilestep.train.convolutions import has_slow_convolutions, with_quick_convolutions

_OFFLINE: Final = (DeviceType.Ipu, DeviceType.OfflineIpu)  # kinds of devices whose executables are saved
_COMPILER: Final = ("opt.", "target.")  # how engine options begin that belong to an executable
_USUAL_PATTERN: Final = str(SyncPattern.Full)
_KINDS: Final = {DeviceType.IpuModel: "ipu-model", DeviceType.Cpu: "cpu", DeviceType.Sim: "sim"}


def described(thing: object) -> str:
    """An object and all that it holds as text, the same in each process."""
    if isinstance(thing, Mapping):
        return "{" + ", ".join(f"{described(key)}: {described(value)}" for key, value in sorted(thing.items(), key=repr)) + "}"
    if isinstance(thing, list | tuple):
        return "[" + ", ".join(map(described, thing)) + "]"
    fields = getattr(thing, "__dict__", None)
    if fields is None or isinstance(thing, type | Enum):
        return repr(thing)
    return type(thing).__name__ + described(fields)


@contextlib.contextmanager
def named_failures() -> Iterator[None]:
    """Errors of a running program as PopART's."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            jax.effects_barrier()  # JAX would raise the error once more when the process ends
        raise (aborted(error) or poplar_runtime_error(f"The session's program failed: {error}")) from error


def quick_on_cpu(step: Callable[..., Any]) -> Callable[..., Any]:
    """The same step. Where it loops over batches, it is written so that XLA:CPU computes it quickly."""
    return with_quick_convolutions(step) if jax.default_backend() == "cpu" else step


def _traced(step: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return jax.jit(step).trace(*arguments)


def _quickly_traced(step: Callable[..., Any], traced: Any, arguments: tuple[Any, ...]) -> Any:
    """A traced step as `quick_on_cpu` has it."""
    if jax.default_backend() == "cpu" and has_slow_convolutions(traced.jaxpr):
        return _traced(with_quick_convolutions(jax.jit(step)), arguments)
    return traced


@final
class SessionEngine:
    """The compiled step of one session.

    Attributes:
        plan: of the session.
        from_file: the file that it was taken from; None: it was compiled from the model.
        step: the compiled function; None before `compile`.
    """

    def __init__(self, plan: SessionPlan, feeds: Feeds, options: SessionOptions, device: DeviceInfo, identity: tuple[object, ...]) -> None:
        """Args: identity: what decides the program besides the model, options and device, with a stable repr."""
        self.plan, self._feeds, self._options, self._device, self._identity = plan, feeds, options, device, identity
        self.from_file: Path | None = None
        self.step: Any = None
        self._saved: Executable | None = None
        self._lowered: Any = None
        self._own: Any = None  # the step as it was traced for a file; None: it was not, or was compiled

    @property
    def _mark(self) -> str:
        device = (str(self._device.type), self._device.numIpus, self._device.tilesPerIPU)
        shapes = [(name, spec.shape, str(spec.dtype)) for name, spec in sorted(self._feeds.step_types().items())]
        compiler = {name: value for name, value in sorted(self._options.engineOptions.items()) if name.startswith(_COMPILER)}
        facts = (device, self._identity, self.plan.batches, shapes, self._options.of_program(), compiler)
        return fingerprint(self.plan.graph.proto, self.plan.graph.variables, *facts)

    @property
    def _owner(self) -> Owner:
        return Owner(mark=self._mark, sync_pattern=str(self._device.sync_pattern))

    def _file_name(self) -> str:
        owner = self._owner
        return f"{owner.mark}{'' if owner.sync_pattern == _USUAL_PATTERN else f'-{owner.sync_pattern}'}{SUFFIX}"

    @property
    def _saves(self) -> bool:
        return self._device.type in _OFFLINE

    def compile(self, carry: Any) -> None:
        """Compiles the step. Args: carry: shapes and dtypes of what stays on the device.

        Raises: popart_exception for an operation that XLA can't compile.
        """
        arguments = (carry, self._feeds.step_types())
        step = self.plan.program.step
        caches = self._options.enableEngineCaching and bool(self._options.cachePath) and self._saves
        path = Path(self._options.cachePath).expanduser() / self._file_name() if caches else None
        if self._saved is None and path is not None and path.exists():
            self._read_cached(path, carry)
        if self._saved is None:
            self.from_file = None
            log("devicex", Level.INFO, "Starting compilation")
            function = step
        else:
            assert self._saved.program is not None
            log("session", Level.INFO, f"Loading serialized PopART executable from {self.from_file}")
            function = loaded(self._saved.program, self._traced(carry).out_info, arguments)
        try:
            traced = self._traced(carry) if function is step else _traced(function, arguments)
            self._lowered, self._own = _quickly_traced(function, traced, arguments).lower(), None
            self.step = self._lowered.compile()
        except jax.errors.JaxRuntimeError as error:
            raise popart_exception(f"The session's program can't be compiled: {error}") from error
        if path is not None and self._saved is None:
            self._write_cached(path, arguments)

    def _traced(self, carry: Any) -> Any:
        """The session's own step."""
        if self._own is None:
            self._own = _traced(self.plan.program.step, (carry, self._feeds.step_types()))
        return self._own

    def text(self) -> str:
        """The program as StableHLO; "" before `compile`."""
        return "" if self._lowered is None else self._lowered.as_text()

    def _read_cached(self, path: Path, carry: Any) -> None:
        try:
            self.load(path, carry)
        except popart_exception as error:
            log("session", Level.WARN, f"Failed to load cached PopART executable from {path}: {error}")

    def _write_cached(self, path: Path, arguments: Any) -> None:
        try:
            save(path, Executable(program=exported(quick_on_cpu(self.plan.program.step), arguments), weights=None), self._owner)
        except popart_exception as error:
            log("session", Level.WARN, f"The executable is not cached: {error}")
        except OSError as error:
            raise popart_exception(f"Cannot create cache directory. {path}: {error}") from error

    def load(self, path: Path, carry: Any) -> Mapping[str, Array] | None:
        """Takes the program of a file, if it has one, for the next `compile`.

        Args: carry: as for `compile`.

        Returns: weights by name; None if the file has none.

        Raises:
            popart_exception: if the file can't be opened.
            popart_runtime_error: if it is damaged or of another session.
            poplar_exception: if it is for another sync pattern than the device's.
        """
        read_in = read(path, self._owner, weights=self.plan.first, program_bytes=lambda: most_program_bytes(self._traced(carry).jaxpr))
        if read_in.program is not None:
            self._saved, self.from_file = read_in, path
        return read_in.weights

    def save(self, path: str, carry: Any, weights: Mapping[str, Array] | None) -> None:
        """Writes the program to a file; a folder gets a file named after the session.

        Args: weights: by name; None: they are left out.

        Raises: popart_exception for a kind of device whose executables are not saved, OSError.
        """
        self.require_saves()
        program = exported(quick_on_cpu(self.plan.program.step), (carry, self._feeds.step_types()))
        save(self._target(path), Executable(program=program, weights=weights), self._owner)

    def save_variables(self, path: str, weights: Mapping[str, Array]) -> None:
        """Writes a file without a program. Args, raises: as `save`."""
        self.require_saves()
        save(self._target(path), Executable(program=None, weights=weights), self._owner)

    def _target(self, path: str) -> Path:
        target = Path(path).expanduser()
        return target / self._file_name() if os.path.isdir(target) else target

    def require_saves(self) -> None:
        """Raises: popart_exception for a kind of device whose executables are not saved."""
        if not self._saves:
            raise popart_exception(
                f"Executables for device type {_KINDS.get(self._device.type, self._device.type)} cannot be saved: acquire a device, or "
                "make one with createOfflineIPUDevice"
            )
