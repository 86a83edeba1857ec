"""What the rules of the advice give: findings with the ways in which each can be followed, and how a way's gain is worked out."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import LEAST_SHARE, Finding, How, Line
from tilestep.figures.records import Figures
from tilestep.recording.edits.script import Change


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to follow a finding.

    Attributes:
        edit: what to change, as one line.
        change: the same on the calls and programs of the history.
        how: how well the replay with the change tells the gain.
        basis: how it was estimated; '' if there is nothing to say.
        part: of what the replay saves, which the edit saves.
        line: where to make it, if that is not the finding's line.
        times: as much work as before, that a run does with it: fewer runs are needed.
        fixed_cycles: of the profile that do not get less with fewer runs, such as loads; they count if `times` is more than one.
        fewer_calls: whether one call does what several did, so that some warm calls are no part of it: what it saves is of all steps alike.
        warm_only: whether set-up becomes another one, which nobody plans: what it saves is known of a warm step alone.
        within: the edit of another finding that does this as well; '': none does.
        plans: whether it plans a program again from its HLO, so that other edits have to come after it.
    """

    edit: str
    change: Change
    how: How
    basis: str = ""
    part: float = 1.0
    line: Line | None = None
    times: int = 1
    fixed_cycles: int = 0
    fewer_calls: bool = False
    warm_only: bool = False
    within: str = ""
    plans: bool = False


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A finding whose gain is not known yet.

    Attributes:
        finding: without a gain.
        ways: to follow it; the best that is possible counts. Without any, the finding is as it is.
        behind_others: whether it may save something behind edits of others, if it saves nothing by itself.
        only_with_gain: whether nobody is told of it where gains are not worked out.
        least_share: of emulated time, that it has to save.
    """

    finding: Finding
    ways: tuple[Way, ...] = ()
    only_with_gain: bool = False
    least_share: float = LEAST_SHARE
    behind_others: bool = False


Rule = Callable[[Figures, Evidence | None], Iterable[Proposal]]
"""A pure function of a profile and its evidence; None: there is none."""
