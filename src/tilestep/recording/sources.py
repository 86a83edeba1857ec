"""What a program was planned from, so that it can be planned again: for another machine, with other options, or with smaller numbers."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from tilestep.errors import RecordingError, SettingsError, TilestepError
from tilestep.machine.spec import MachineSpec
from tilestep.messages import shown
from tilestep.options import PREFIX, PlanOptions
from tilestep.plan.lower import lower
from tilestep.plan.steps import Program
from tilestep.program.hlo import HloModule, parse_hlo
from tilestep.recording.tables import Tables, json_text

MOST_TEXT: Final = 4_000_000  # characters of HLO that are planned again
_SINGLE: Final = re.compile(r"\bf32\[")
_DOUBLE: Final = re.compile(r"\bf64\[")


@dataclass(frozen=True, kw_only=True)
class Source:
    """The HLO of a program, and the options of its plan."""

    text: Callable[[], str]  # gives the HLO as text; '' if it was not kept
    options: PlanOptions  # options of the plan


def module_of(source: Source | None, *, most: int = MOST_TEXT) -> HloModule | None:
    """The module of a program; None if its HLO was not kept, is longer than so many characters, or of another version."""
    text = "" if source is None else source.text()
    try:
        return parse_hlo(text) if 0 < len(text) <= most else None
    except TilestepError:
        return None


def planned_again(
    source: Source,
    program: Program,
    machine: MachineSpec,
    *,
    options: PlanOptions | None = None,
    halves: bool = False,
    singles: bool = False,
    edit: Callable[[HloModule], HloModule] | None = None,
) -> Program:
    """A program as it would be planned from the same HLO under other circumstances.

    Args:
        source: of the program.
        program: as it was planned.
        machine: to plan for.
        options: in place of the source's.
        halves: whether arrays of float32 become float16.
        singles: whether arrays of float64 become float32.
        edit: of the module.

    Raises:
        RecordingError: if the HLO was not kept, or is longer than `MOST_TEXT`.
        HloError: if it cannot be parsed.
    """
    text = source.text()
    if not text:
        raise RecordingError(f"program '{program.name}' cannot be planned again, because its HLO was not kept")
    if len(text) > MOST_TEXT:
        raise RecordingError(f"the HLO of program '{program.name}' has {len(text):,} characters: at most {MOST_TEXT:,} are planned again")
    text = _DOUBLE.sub("f32[", text) if singles else text
    module = parse_hlo(_SINGLE.sub("f16[", text) if halves else text)
    if edit is not None:
        module = edit(module)
    planned = lower(module, machine, name=program.name, num_ipus=program.num_ipus, options=options or source.options)
    return replace(planned, dry=program.dry)


def hlo_of(tables: Tables) -> dict[int, str]:
    """The HLO of a recording's programs, by key, as far as it was kept. Raises: RecordingError if the text is damaged."""
    return {key: text for key, text in _of_programs(tables, "hlo", "texts").items() if isinstance(text, str)}


def options_of(tables: Tables) -> dict[int, PlanOptions]:
    """The options of the plans of a recording's programs, by key, as far as they were kept.

    Raises: RecordingError if the text is damaged, or has an option that this version of the package does not know.
    """
    found: dict[int, PlanOptions] = {}
    for key, kept in _of_programs(tables, "options", "objects").items():
        if kept is None:
            continue
        try:
            if not isinstance(kept, Mapping):
                raise SettingsError(f"{shown(kept)} is no object")
            given = cast("Mapping[str, object]", kept)
            found[key] = PlanOptions().changed({f"{PREFIX}{name}": value for name, value in given.items()})
        except SettingsError as error:
            raise RecordingError(f"text 'options' of the recording: {error}") from None
    return found


def _of_programs(tables: Tables, name: str, what: str) -> dict[int, Any]:
    """Key of a program -> its entry in a text that is a list of them. Raises: RecordingError if it is none, or of other length."""
    keys: list[int] = tables.column("programs", "key").tolist()
    entries: Any = json_text(tables, name)
    if entries is None:
        return {}
    if not isinstance(entries, list) or len(entries) != len(keys):
        raise RecordingError(f"text '{name}' of the recording must be a list of {len(keys)} {what}")
    return dict(zip(keys, cast("list[Any]", entries), strict=True))
