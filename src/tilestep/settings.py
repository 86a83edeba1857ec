"""Everything that can be set from outside: jax config options and environment variables. No other file reads these.

| option, variable in capitals        | value                                                      | default           |
|-------------------------------------|------------------------------------------------------------|-------------------|
| jax_ipu_use_model                   | whether to emulate; only true works                        | true              |
| jax_ipu_model_num_tiles             | tiles of each IPU                                          | the machine's own |
| jax_ipu_device_count                | number of IPUs                                             | the machine's own |
| jax_ipu_visible_devices             | indices of IPUs ("0,2,3"); goes before the count           | all               |
| TILESTEP_MACHINE                    | name of a machine, or path of a TOML file                  | bow-2000          |
| TILESTEP_SYNC_PATTERN               | full, singlePipeline or replicaAndLadder                   | the machine's own |
| TILESTEP_SIMULATED_IPUS             | IPUs that are simulated; the others do what these do       | all               |
| JAX_IPU_PARTIALS_TYPE               | float or half (*)                                          | float             |
| JAX_IPU_AVAILABLE_MEMORY_PROPORTION | 0 to 1, of a tile's memory (*)                             | 0.6               |
| JAX_IPU_NUM_IO_TILES                | tiles that only transfer (*)                               | 0                 |
| JAX_IPU_WEIGHT_LOAD_BITS            | 64 or 128, a cycle (*)                                     | 64                |
| JAX_IPU_FUSION                      | clusters or none (*)                                       | clusters          |
| POPLAR_ENGINE_OPTIONS               | JSON object of engine options (engine_options.py)          | {}                |
| PVTI_OPTIONS                        | JSON object: how to trace the process (tracing/options.py) | not traced        |
| POPART_* and POPXL_CACHE_DIR        | read by tilestep.popart (its diagnostics/environment.py)   | unset             |

(*) Only a variable. compiler_options of one program may change it: there its name is in small letters, without JAX_. options.py explains
these four.

`jax.config.update` checks its value at once, and its value goes before the environment. The platform reads a variable when it starts, so a
bad one never disturbs a program that does not use `ipu`. PVTI_OPTIONS is read when tilestep is imported, by the program or by JAX. An empty
variable counts as unset.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tilestep.engine_options import VARIABLE, EngineOptions, read_engine_options
from tilestep.errors import SettingsError, SpecError
from tilestep.messages import nearest, plain, shown

if TYPE_CHECKING:  # `import tilestep` imports this file and must cost next to nothing, so what needs a machine imports it when called
    from tilestep.machine.spec import MachineSpec
    from tilestep.options import PlanOptions

T = TypeVar("T")

_TRUE = ("yes", "true", "t", "1", "on")
_FALSE = ("no", "false", "f", "0", "off")
_MACHINE = "TILESTEP_MACHINE"
_SYNC_PATTERN = "TILESTEP_SYNC_PATTERN"
_SIMULATED = "TILESTEP_SIMULATED_IPUS"
_TRACE = "PVTI_OPTIONS"
_PLAN_VARIABLES = (
    "JAX_IPU_PARTIALS_TYPE",
    "JAX_IPU_AVAILABLE_MEMORY_PROPORTION",
    "JAX_IPU_NUM_IO_TILES",
    "JAX_IPU_WEIGHT_LOAD_BITS",
    "JAX_IPU_FUSION",
)
MAX_IPUS = 256
MAX_TILES = 100_000


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of platform `ipu`.

    Attributes:
        machine: the machine to emulate.
        hardware_ids: the IPU of the machine behind each device, in the order of devices.
        allow_out_of_memory: whether a program that does not fit is reported instead of refused.
        plan_options: of programs without options of their own.
        engine: the options of POPLAR_ENGINE_OPTIONS.
    """

    machine: MachineSpec
    hardware_ids: tuple[int, ...]
    allow_out_of_memory: bool
    plan_options: PlanOptions
    engine: EngineOptions


def _bad(name: str, value: object, allowed: str) -> SettingsError:
    return SettingsError(f"{name} is {shown(value)}: it must be {allowed}")


def _bool(name: str, value: object) -> bool:
    text = value.strip().lower() if isinstance(value, str) else None
    if value is True or text in _TRUE:
        return True
    if value is False or text in _FALSE:
        return False
    raise _bad(name, value, f"one of {'/'.join(_TRUE)} or {'/'.join(_FALSE)}, in any case")


def _count(name: str, value: object, highest: int) -> int | None:
    if value is None:
        return None
    try:
        number = int(value.strip()) if isinstance(value, str) else value
    except ValueError:
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= highest:
        raise _bad(name, value, f"a whole number, 1 to {highest:,}")
    return number


def _ids(name: str, value: object) -> str | None:
    """The text itself, checked to be a list of ids; None if it is empty."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        ids = [int(part) for part in value.split(",")] if isinstance(value, str) else []
    except ValueError:
        ids = []
    if not ids or len(set(ids)) != len(ids) or not all(0 <= ipu < MAX_IPUS for ipu in ids):
        raise _bad(name, value, f"different numbers of IPUs, each 0 to {MAX_IPUS - 1}, with commas between ('0,2,3')")
    return str(value)


UNSET: Any = object()
WHEN_SET: list[Callable[[], None]] = []  # called when jax.config.update has set one of the options


class _Option(Generic[T]):
    """One option of jax.config: the value of `update`, else that of the environment, else the default."""

    def __init__(self, name: str, default: T, parse: Callable[[str, object], T], *, kind: type, doc: str) -> None:
        self.name, self.variable, self.kind, self.doc = name, name.upper(), kind, doc
        self._default, self._parse = default, parse
        self.given: T = UNSET

    def read(self, environ: Mapping[str, str]) -> T:
        """The current value. Raises: SettingsError if it comes from the environment and is not allowed."""
        if self.given is not UNSET:
            return self.given
        text = environ.get(self.variable, "")
        return self._parse(self.variable, text) if text.strip() else self._default

    @property
    def value(self) -> T:
        """The value that `jax.config` shows: as `read`, but the default instead of a variable that is not allowed."""
        try:
            return self.read(os.environ)
        except SettingsError:
            return self._default

    def stated(self, environ: Mapping[str, str]) -> object:
        """The text or value that `read` would parse."""
        return self.given if self.given is not UNSET else environ.get(self.variable, "")

    def _set(self, value: object) -> None:  # the name that jax.config.update calls
        self.given = self._parse(self.name, value)
        for tell in WHEN_SET:
            tell()


USE_MODEL = _Option("jax_ipu_use_model", True, _bool, kind=bool, doc="Emulate the IPU (no hardware runtime exists).")
MODEL_NUM_TILES = _Option(
    "jax_ipu_model_num_tiles",
    None,
    lambda name, value: _count(name, value, MAX_TILES),
    kind=int,
    doc="Tiles of each emulated IPU; out of memory is then reported, not raised.",
)
DEVICE_COUNT = _Option(
    "jax_ipu_device_count", None, lambda name, value: _count(name, value, MAX_IPUS), kind=int, doc="Number of emulated IPUs."
)
VISIBLE_DEVICES = _Option("jax_ipu_visible_devices", None, _ids, kind=str, doc="Which IPUs of the machine are devices, as '0,2,3'.")
JAX_OPTIONS: tuple[_Option[Any], ...] = (USE_MODEL, MODEL_NUM_TILES, DEVICE_COUNT, VISIBLE_DEVICES)


@functools.cache
def define_jax_options() -> None:
    """Adds the options to `jax.config`, once. Reads nothing and starts no device."""
    import jax

    config: Any = jax.config  # its add_option has no types
    for option in JAX_OPTIONS:
        config.add_option(option.name, option, option.kind, [], {"help": option.doc})
        setattr(config.__class__, option.name, property(lambda _, option=option: option.value))


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """The current settings.

    Args:
        environ: environment variables; None: the process's own.

    Raises:
        SettingsError: for a value that is not allowed; the message names the option or variable, the value and the allowed values.
    """
    environ = os.environ if environ is None else environ
    if not USE_MODEL.read(environ):
        raise SettingsError(
            "jax_ipu_use_model is false, but no runtime for IPU hardware exists here: platform 'ipu' is an emulator; "
            "leave the option (or JAX_IPU_USE_MODEL) true, or choose platform 'cpu'"
        )
    num_tiles = MODEL_NUM_TILES.read(environ)
    machine, hardware_ids = _machine(environ, num_tiles)
    engine = read_engine_options(environ.get(VARIABLE, ""))
    return Settings(
        machine=machine,
        hardware_ids=hardware_ids,
        allow_out_of_memory=engine.allow_out_of_memory or num_tiles is not None,
        plan_options=_plan_options(environ, machine),
        engine=engine,
    )


def emulated_system(default: str, environ: Mapping[str, str] | None = None) -> tuple[MachineSpec, bool]:
    """The machine whose IPUs a program can ask for, and whether a setting names it. All are simulated: it is not for dry runs.

    Args:
        default: the name of the machine if no setting names one, or says how many IPUs there are.
        environ: environment variables; None: the process's own.
    Raises: SettingsError for a value that is not allowed.
    """
    environ = os.environ if environ is None else environ
    named = bool(environ.get(_MACHINE, "").strip())
    counted = DEVICE_COUNT.read(environ) is not None or VISIBLE_DEVICES.read(environ) is not None
    given = dict(environ) if named or counted else {**environ, _MACHINE: default}
    return replace(_machine(given | {_SIMULATED: ""}, MODEL_NUM_TILES.read(environ))[0], simulated_ipus=0), named


def stated_settings(environ: Mapping[str, str] | None = None) -> dict[str, object]:
    """Everything that `read_settings` would parse, by variable. As long as this stays equal, no setting has changed. Opens no file."""
    environ = os.environ if environ is None else environ
    variables = (_MACHINE, _SYNC_PATTERN, _SIMULATED, VARIABLE, *_PLAN_VARIABLES)
    return {option.variable: option.stated(environ) for option in JAX_OPTIONS} | {name: environ.get(name, "") for name in variables}


def changes_since(stated: Mapping[str, object], environ: Mapping[str, str] | None = None) -> str:
    """What is stated otherwise than it was: 'JAX_IPU_DEVICE_COUNT is 8 and was unset'; '' if nothing is.

    Args: stated: of `stated_settings`. environ: environment variables; None: the process's own.
    """
    pairs = [(name, now, stated[name]) for name, now in stated_settings(environ).items() if now != stated[name]]
    return ", ".join(f"{name} is {_value_text(now)} and was {_value_text(before)}" for name, now, before in pairs)


def _value_text(value: object) -> str:
    return "unset" if value in ("", None) else shown(value)


def trace_options(environ: Mapping[str, str] | None = None) -> str | None:
    """The text that says how to trace the process; None: it is not traced.

    Args: environ: environment variables, the process's own if None.
    """
    text = (os.environ if environ is None else environ).get(_TRACE, "")
    return text if text.strip() else None


def popart_variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of PopART that have a value: POPART_* and POPXL_CACHE_DIR.

    Args: environ: environment variables, the process's own if None.
    """
    given = os.environ if environ is None else environ
    return {name: value for name, value in given.items() if value and (name.startswith("POPART_") or name == "POPXL_CACHE_DIR")}


def warn_of_unknown_variables(environ: Mapping[str, str] | None = None) -> None:
    """Warns: UserWarning for a JAX_IPU_* variable that does not exist, with the nearest that does."""
    known = [*(option.variable for option in JAX_OPTIONS), *_PLAN_VARIABLES]
    for variable in sorted(os.environ if environ is None else environ):
        if variable.startswith("JAX_IPU_") and variable not in known:
            near = nearest(variable, known)
            hint = f"; the nearest that exists is {near}" if near else ""
            warnings.warn(f"environment variable {plain(variable)} does nothing{hint}", UserWarning, stacklevel=2)


def read_program_engine_options(given: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> tuple[EngineOptions, EngineOptions]:
    """The options of Poplar's engine for a program that states some itself, which go before those of the variable.

    Args: given: option -> value. environ: environment variables; None: the process's own.
    Returns: all of them together, and the variable's alone.
    Raises: SettingsError for an option that does not exist, or a value that is not allowed.
    """
    text = (os.environ if environ is None else environ).get(VARIABLE, "")
    of_variable = read_engine_options(text)
    return read_engine_options(text, given, source="the program's engine options"), of_variable


def _machine(environ: Mapping[str, str], num_tiles: int | None) -> tuple[MachineSpec, tuple[int, ...]]:
    from tilestep.machine import DEFAULT_MACHINE, SYNC_PATTERNS, changed_machine, load_machine

    name = environ.get(_MACHINE, "").strip() or DEFAULT_MACHINE
    pattern = environ.get(_SYNC_PATTERN, "").strip() or None
    if pattern is not None and pattern not in SYNC_PATTERNS:
        raise _bad(_SYNC_PATTERN, pattern, f"one of {', '.join(SYNC_PATTERNS)}")
    simulated = _count(_SIMULATED, environ.get(_SIMULATED, "").strip() or None, MAX_IPUS)
    count, visible = DEVICE_COUNT.read(environ), VISIBLE_DEVICES.read(environ)
    ids = None if visible is None else tuple(int(part) for part in visible.split(","))
    try:
        machine = load_machine(name, num_ipus=count if ids is None else None, num_tiles=num_tiles, sync_pattern=pattern)
        if ids is not None and max(ids) >= machine.num_ipus:
            machine = load_machine(name, num_ipus=max(ids) + 1, num_tiles=num_tiles, sync_pattern=pattern)
    except SpecError as error:
        raise SettingsError(f"{_MACHINE}: {error}") from error
    try:
        machine = changed_machine(machine, simulated_ipus=simulated)
    except SpecError as error:
        raise SettingsError(f"{_SIMULATED}: {error}") from error
    return machine, tuple(range(machine.num_ipus)) if ids is None else ids


def _plan_options(environ: Mapping[str, str], machine: MachineSpec) -> PlanOptions:
    from tilestep.options import PlanOptions

    options = PlanOptions()
    for variable in _PLAN_VARIABLES:
        if text := environ.get(variable, "").strip():
            try:
                options = options.changed({variable.removeprefix("JAX_").lower(): text})
                options.require_tiles_left(machine.ipu.num_tiles)
            except SettingsError as error:
                raise SettingsError(f"{variable}: {error}") from None
    return options
