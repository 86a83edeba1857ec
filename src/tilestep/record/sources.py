"""What a program was planned from, so that it can be planned again: for another machine, with other options, or with smaller numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from tilestep.errors import RecordingError
from tilestep.machine.spec import MachineSpec
from tilestep.options import PlanOptions
from tilestep.plan.lower import lower
from tilestep.plan.steps import Program
from tilestep.program.hlo import HloModule, parse_hlo

MOST_TEXT: Final = 4_000_000  # characters of HLO that are planned again
_SINGLE: Final = re.compile(r"\bf32\[")


@dataclass(frozen=True, kw_only=True)
class Source:
    """The HLO of a program, and the options of its plan.

    Attributes:
        text: gives the HLO as text; '' if it was not kept.
        options: of the plan.
    """

    text: Callable[[], str]
    options: PlanOptions


def planned_again(
    source: Source,
    program: Program,
    machine: MachineSpec,
    *,
    options: PlanOptions | None = None,
    halves: bool = False,
    donated: dict[int, int] | None = None,
    edit: Callable[[HloModule], HloModule] | None = None,
) -> Program:
    """A program as it would be planned from the same HLO under other circumstances.

    Args:
        source: of the program.
        program: as it was planned.
        machine: to plan for.
        options: in place of the source's.
        halves: whether arrays of float32 become float16.
        donated: result to argument, of further donations.
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
    module = parse_hlo(_SINGLE.sub("f16[", text) if halves else text)
    if donated:
        module = replace(module, input_output_aliases={**module.input_output_aliases, **donated})
    if edit is not None:
        module = edit(module)
    planned = lower(module, machine, name=program.name, num_ipus=program.num_ipus, options=options or source.options)
    return replace(planned, dry=program.dry)
