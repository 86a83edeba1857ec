"""The knobs of a machine that what-if turns: short names of its fields, and settings of them in words."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final

from tilestep.errors import SpecError
from tilestep.machine.assemble import FIELD_KINDS, value_of
from tilestep.machine.fields import QUANTITIES, Value
from tilestep.machine.spec import MachineSpec
from tilestep.messages import nearest, shown
from tilestep.plan.steps import Program
from tilestep.recording.edits.programs import scaled

FAMILY: Final = "family."  # prefix of a knob for the supersteps of one family: their cost
_SETTING: Final = re.compile(r"\s*([\w.-]+)\s*=\s*(.+?)\s*")
_FACTOR: Final = re.compile(r"([x/])\s*(\d{1,9}(?:\.\d{1,9})?)", re.ASCII)
_FIXED: Final = (
    "num_ipus",
    "simulated_ipus",
    "ipus_per_machine",
    "link.ipus_per_rack",
    "link.topology",
    "ipu.clock_hz",
    "ipu.generation",
    "ipu.version",
)


@dataclass(frozen=True, kw_only=True)
class Knob:
    """One knob.

    Attributes:
        name: short.
        title: in plain words.
        fields: of the machine, by their paths, that it turns together.
        plans: whether a program would be planned otherwise, so that a replay alone tells nothing.
    """

    name: str
    title: str
    fields: tuple[str, ...]
    plans: bool = False


_ROWS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (  # a name, what it is in words, the fields that it turns together
    ("host.link", "the bandwidth of a host link", ("host.to_ipus_bytes_per_second", "host.to_host_bytes_per_second")),
    ("host.latency", "the latency of a host transfer", ("host.link_latency_seconds",)),
    ("host.load", "the fixed time to load a program", ("host.load_seconds",)),
    ("host.dispatch", "the host's time for a dispatch", ("host.dispatch_seconds",)),
    (
        "streaming-memory",
        "the bandwidth of streaming memory",
        ("host.streaming_memory_bytes_per_second", "host.remote_buffer_bytes_per_second"),
    ),
    ("links", "the bandwidth of IPU-Links", ("link.bytes_per_second",)),
    ("gateway", "the bandwidth of a gateway", ("link.gateway_bytes_per_second",)),
    ("sync.hop", "the time of a sync between IPUs, for each hop", ("link.sync_seconds_per_hop",)),
    ("sync.pattern", "the sync pattern", ("sync_pattern",)),
    (
        "amp",
        "the products a cycle of a tile's matrix unit",
        tuple(f"ipu.macs_per_cycle_{kind}" for kind in ("half", "half_float", "float", "float8")),
    ),
    ("exchange", "the bytes a cycle that a tile receives", ("ipu.tile.exchange_bytes_per_cycle",)),
    ("sram", "the memory of a tile", ("ipu.tile.sram_bytes",)),
    ("tiles", "the number of tiles", ("ipu.num_tiles",)),
    ("tile.sync", "the cycles of a sync of an IPU's tiles", ("ipu.sync_cycles",)),
)
KNOBS: Final[Mapping[str, Knob]] = MappingProxyType(
    {
        name: Knob(name=name, title=title, fields=fields, plans=all(field.startswith("ipu.") for field in fields))
        for name, title, fields in _ROWS
    }
)
TURNED: Final = tuple(name for name, knob in KNOBS.items() if not knob.plans and name != "sync.pattern")
"""Those that a table turns both ways."""


@dataclass(frozen=True, kw_only=True)
class TurnedKnob:
    """One knob turned: by a factor, or to a value.

    Attributes:
        knob: which.
        family: of supersteps whose cost it turns; '' for a field of the machine.
        factor: of what it is; None: it becomes `value`.
        value: a number or a word.
    """

    knob: Knob
    family: str = ""
    factor: float | None = None
    value: Value | None = None

    def __str__(self) -> str:
        return f"{self.knob.name}={self.words}"

    @property
    def words(self) -> str:
        """What it becomes: 'x2', '/2', '32e9'."""
        if self.factor is None:
            return str(self.value)
        return f"x{self.factor:g}" if self.factor >= 1 else f"/{1 / self.factor:g}"


def setting_of(text: str) -> TurnedKnob:
    """The setting 'host.link=x2', 'host.load=/2', 'links=32e9', 'sync.pattern=singlePipeline' or 'family.matmul=/2'.

    Raises: SpecError for another form, an unknown knob, one that nothing can turn, or a value that is none of its.
    """
    found = _SETTING.fullmatch(text)
    if found is None:
        raise SpecError(f"setting {shown(text)} must be of the form KNOB=xFACTOR, KNOB=/FACTOR or KNOB=VALUE, such as host.link=x2")
    name, words = found[1], found[2]
    factor = _FACTOR.fullmatch(words)
    turned = None if factor is None else float(factor[2]) if factor[1] == "x" else 1 / float(factor[2]) if float(factor[2]) else 0.0
    if turned is not None and not 0 < turned < math.inf:
        raise SpecError(f"setting {shown(text)}: its factor must be more than 0")
    if name.startswith(FAMILY) and len(name) > len(FAMILY):
        if turned is None:
            raise SpecError(f"setting {shown(text)}: the cost of a family is turned by a factor, such as {name}=/2")
        return TurnedKnob(knob=family_knob(name.removeprefix(FAMILY)), family=name.removeprefix(FAMILY), factor=turned)
    knob = _knob(name)
    if turned is not None:
        if any(FIELD_KINDS[path] is str for path in knob.fields):
            raise SpecError(f"setting {shown(text)}: {name} is a word, {' or '.join(QUANTITIES[knob.fields[0]].choices)}")
        return TurnedKnob(knob=knob, factor=turned)
    return TurnedKnob(knob=knob, value=_value(knob, words, text))


def family_knob(family: str) -> Knob:
    """The knob of the supersteps of a family."""
    return Knob(name=FAMILY + family, title=f"the time of {family} supersteps", fields=())


def turned(machine: MachineSpec, setting: TurnedKnob) -> MachineSpec:
    """The machine with a knob turned. Raises: SpecError for a value outside of its bounds."""
    for path in setting.knob.fields:
        old = value_of(machine, path)
        new = setting.value if setting.factor is None else _scaled(old, setting.factor, FIELD_KINDS[path])
        quantity = QUANTITIES[path]
        if isinstance(new, int | float) and not quantity.lowest <= new <= quantity.highest:
            raise SpecError(f"{setting}: {path} would be {new:g} {quantity.unit}, and must be {quantity.lowest:g} to {quantity.highest:g}")
        machine = _with(machine, path.split("."), new)
    return machine


def with_family(programs: Mapping[int, Program], setting: TurnedKnob) -> Mapping[int, Program]:
    """The programs by key, with the cost of a family turned, if the setting is of one."""
    if not setting.family or setting.factor is None:
        return programs
    part = Fraction(setting.factor).limit_denominator(1_000_000)
    return {key: scaled(program, setting.family, part.numerator, part.denominator) for key, program in programs.items()}


def _knob(name: str) -> Knob:
    knob = KNOBS.get(name)
    if knob is not None:
        return knob
    if name in FIELD_KINDS and name not in _FIXED:
        known = next((knob for knob in KNOBS.values() if name in knob.fields), None)
        return Knob(name=name, title=name, fields=(name,), plans=known.plans if known else name.startswith("ipu."))
    if name in _FIXED:
        raise SpecError(f"knob {shown(name)} cannot be turned, because a recording is of IPUs that it numbers, and counts their cycles")
    near = nearest(name, (*KNOBS, *(each for each in FIELD_KINDS if each not in _FIXED)))
    hint = f"; the nearest that does is {near!r}" if near else ""
    raise SpecError(f"knob {shown(name)} does not exist{hint} (all: {', '.join(KNOBS)}, {FAMILY}NAME, or the path of a machine's field)")


def _value(knob: Knob, words: str, text: str) -> Value:
    kind, choices = FIELD_KINDS[knob.fields[0]], QUANTITIES[knob.fields[0]].choices
    if kind is str:
        if choices and words not in choices:
            raise SpecError(f"setting {shown(text)}: {knob.name} must be one of {', '.join(choices)}")
        return words
    try:
        value = float(words)
    except ValueError:
        raise SpecError(f"setting {shown(text)}: {shown(words)} is neither a factor, such as x2 or /2, nor a number") from None
    if not math.isfinite(value):
        raise SpecError(f"setting {shown(text)}: the value must be finite")
    return round(value) if kind is int else value


def _scaled(old: Value, factor: float, kind: type) -> Value:
    assert not isinstance(old, str)  # words have no factors
    return max(round(old * factor), min(1, round(old))) if kind is int else old * factor


def _with(owner: Any, names: list[str], value: Value | None) -> Any:
    assert is_dataclass(owner)
    name, *rest = names
    return replace(owner, **{name: _with(getattr(owner, name), rest, value) if rest else value})
