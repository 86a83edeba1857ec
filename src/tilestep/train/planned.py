"""Options of an emulated machine's planner: their checks, and programs compiled with them, which no other platform's compiler takes."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final, TypeAlias, cast, final

import jax
from jax.interpreters import partial_eval

from tilestep.errors import SettingsError
from tilestep.messages import shown
from tilestep.options import PREFIX, PlanOptions
from tilestep.train.offload import is_tracing, platform_of
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

PLATFORM: Final = "ipu"  # whose compiler knows these options; others compile without them

GivenOptions: TypeAlias = Mapping[str, Any]  # option -> value; a name may begin with `ipu_`
CompilerOptions: TypeAlias = tuple[tuple[str, str | int | float], ...]  # (name with `ipu_`, value) of each option that is given; sorted

_FORM: Final = 'a mapping of names to values, such as {"available_memory_proportion": 0.2}'


def plan_options_of(given: GivenOptions | None, name: str = "plan_options") -> CompilerOptions:
    """Options of one plan, checked.

    Args: name: of the argument, for messages.
    Raises:
        TypeError: for what is no mapping, or a value that is neither a string nor a number.
        SettingsError: for an unknown option, a value out of bounds, or an option that is given twice.
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping):  # a caller's mistake
        raise TypeError(f"{name} is {shown(given)}: it must be {_FORM}")
    full: dict[str, object] = {}
    for key, value in given.items():
        if not isinstance(key, str):
            raise TypeError(f"{name} has the name {shown(key)}: it must be {_FORM}")
        option = key if key.startswith(PREFIX) else PREFIX + key
        if option in full:
            raise SettingsError(f"{name} has {option} twice, once without {PREFIX!r}: give it once")
        if not (isinstance(value, str) or hasattr(value, "__index__") or hasattr(value, "__float__")):
            raise TypeError(f"{name}: {option} is {shown(value)}: it must be a string or a number")
        full[option] = value
    try:
        checked = PlanOptions().changed(full)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from None
    return tuple((option, getattr(checked, option.removeprefix(PREFIX))) for option in sorted(full))


def require_tiles_left(options: CompilerOptions, device: Any) -> None:
    """Args: device: an emulated IPU, whose programs have these options. Raises: SettingsError if none of its tiles computes."""
    num_tiles = getattr(device, "num_tiles", None)  # another process's device has none here, but has one there
    if num_tiles is not None:
        try:
            PlanOptions().changed(dict(options)).require_tiles_left(num_tiles)
        except SettingsError as error:
            raise SettingsError(f"plan_options: {error}") from None


def plan_options_of_devices(given: GivenOptions | Sequence[GivenOptions | None] | None, devices: int | None) -> Sequence[CompilerOptions]:
    """The options of each device that `device_mapping` counts; one entry if they are the same for all.

    Args: devices: how many of one replica there are; None: a mesh names its devices, which are not counted.
    Raises: as `plan_options_of`; ValueError for a list of another length, or with a mesh.
    """
    if given is None or isinstance(given, Mapping):
        return [plan_options_of(given)]
    if isinstance(given, Set | str) or not isinstance(given, list | tuple):
        raise TypeError(f"plan_options is {shown(given)}: it must be {_FORM}, or a list of them with one for each device")
    entries = cast("Sequence[Any]", given)
    if devices is None:
        raise ValueError(
            f"plan_options is a list of {len(entries)}, but device_mapping has a mesh, whose devices have no index: give one mapping for "
            "all"
        )
    if len(entries) != devices:
        raise ValueError(
            f"plan_options has {len(entries)} entries, but a replica has {devices} devices: give one mapping for each device that "
            "device_mapping counts, or one for all"
        )
    return [plan_options_of(entry, f"plan_options[{index}]") for index, entry in enumerate(entries)]


def planned(jit: Callable[[dict[str, Any] | None], Any], options: CompilerOptions) -> Any:
    """A jitted program that is compiled with these options wherever it runs on emulated IPUs.

    Args: jit: jits it with what `jax.jit` takes as `compiler_options`.
    """
    return Planned(jit, options) if options else jit(None)


@final
class Planned:
    """A program that is jitted in two ways: with options for emulated IPUs, and without them for other platforms and other programs."""

    def __init__(self, jit: Callable[[dict[str, Any] | None], Any], options: CompilerOptions) -> None:
        self._jit: Final = jit
        self._options: Final = options
        self._plain: Final = jit(None)
        self._programs: Final[dict[str, Any]] = {}  # by the platform of their arguments

    def __call__(self, *args: Pytree) -> Any:
        return self._program(args)(*args)

    def trace(self, *args: Pytree) -> Any:
        """The result of `jax.jit`'s `trace`."""
        return self._program(args).trace(*args)

    def lower(self, *args: Pytree) -> Any:
        """The result of `jax.jit`'s `lower`."""
        return self._program(args).lower(*args)

    def _program(self, args: tuple[Pytree, ...]) -> Any:
        leaves = _jax.tree.leaves(args)
        if is_tracing(leaves):  # it becomes a part of another program, whose options count
            return self._plain
        platform = _platform_of_program(leaves)
        program = self._programs.get(platform)
        if program is None:
            program = self._jit(dict(self._options)) if platform == PLATFORM and self._stays(args) else self._plain
            self._programs[platform] = program
        return program

    def _stays(self, args: tuple[Pytree, ...]) -> bool:
        """Whether it runs where its arguments are. JAX drops those that it does not read; without any it is on the default device."""
        if platform_of(()) == PLATFORM:
            return True
        jaxpr = self._plain.trace(*args).jaxpr.jaxpr
        return any(partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[1])


def _platform_of_program(leaves: Sequence[Any]) -> str:
    """The platform on which JAX runs a program: that of arguments that are committed to a device, else the default device's."""
    for leaf in leaves:
        sharding = getattr(leaf, "sharding", None)  # NumPy's arrays have none
        if sharding is not None and (leaf.committed if isinstance(leaf, jax.Array) else True):
            return str(next(iter(sharding.device_set)).platform)
    return platform_of(())
