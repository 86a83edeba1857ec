"""A finding about a profile: what to do, where, what that saves, and how the saving is known."""

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, Literal

from tilestep.figures.quantities import bytes_text, numbers_text, share_text, time_text

FindingKind = Literal[
    "memory",  # tiles that are too full, or nearly full
    "loads",  # programs come to the tiles again
    "fixed",  # costs that are paid once, such as the first load of a program
    "donation",  # arguments stream in again
    "streaming",  # arguments are new at each call
    "results",  # results leave the IPU and nobody uses them
    "reads",  # the host reads values in the tiles
    "needed",  # such reads for functions of the user's
    "steps",  # steps are too short for the host to keep up
    "calls",  # calls take longer than their work
    "idle",  # waits for the host or for other IPUs
    "products",  # whose sizes fill the matrix unit badly
    "halves",  # float32 where half would do
    "partials",  # sums of halves in float32
    "offload",  # values in pinned_host would fit into the tiles
    "pipeline",  # stages that differ
    "bubbles",  # a pipeline that is empty for long
    "collectives",  # exchanges between IPUs that are too many or too large
    "feeds",  # the program stops for its feeds
    "doubles",  # float64, which an IPU has no unit for
    "set-up",  # set-up takes longer than the work
    "limit",  # the largest program spends most on it
    "unused",  # IPUs
    "fallback",  # operations that were priced roughly
]
FIXED: Final[tuple[FindingKind, ...]] = ("set-up", "fixed")  # kinds that say what the time goes into before and beside the work
ASIDE: Final[tuple[FindingKind, ...]] = (
    *FIXED,
    "memory",
    "needed",
    "limit",
    "unused",
    "fallback",
)  # kinds that nobody has to follow unless urgent
LEARNS_OTHERWISE: Final[tuple[FindingKind, ...]] = ("products", "steps")  # larger batches change what a step learns
How = Literal["replayed", "within 2 %", "about", "at least"]
Left = Literal["same line", "saves nothing", "not played"]  # why an edit is not among those that are played together
NOTEBOOK_CELL: Final = re.compile(r"(?:^|/)ipykernel_\d+/\d+\.py$")
LEAST_SHARE: Final = 0.01  # less of emulated time is not worth a sentence


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the user's code."""

    file: str
    number: int

    def __str__(self) -> str:
        if NOTEBOOK_CELL.search(self.file):  # its name is a number that nobody has given
            return f"line {self.number} of a cell"
        return f"{PurePath(self.file).name}:{self.number}"


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What an edit saves.

    Attributes:
        cycles: of emulated time.
        share: of emulated time.
        seconds: of emulated time.
        step_cycles: of one step once the system is warm; None: nothing has steps, or nobody knows.
        step_share: of such a step; None likewise.
        step_seconds: of such a step.
        warm_only: whether only a warm step is known, because set-up becomes another one; `cycles` and `share` are 0 then.
        after: the numbers of findings whose edits make this one worth more; (): none do.
        after_share: of what these edits leave of a warm step, else of emulated time, that it saves then.
        tile_bytes: of the fullest tile, for findings about memory.
        how: 'replayed': the journal was played again with the edit, and the gain is exact; 'within 2 %': the same, with programs that will
            be compiled anew; 'about': an estimate; 'at least': what is sure of a gain whose rest nobody knows.
        basis: of what the gain was worked out and how it was estimated, in words; '' if there is nothing to say.
    """

    cycles: int = 0
    share: float = 0.0
    seconds: float = 0.0
    step_cycles: int | None = None
    step_share: float | None = None
    step_seconds: float = 0.0
    warm_only: bool = False
    after: tuple[int, ...] = ()
    after_share: float = 0.0
    tile_bytes: int = 0
    how: How
    basis: str = ""

    @property
    def weight(self) -> float:
        """The share by which it is ranked: of a warm step if that is known."""
        return self.share if self.step_share is None else self.step_share

    @property
    def most(self) -> float:
        """The larger of its shares."""
        return max(self.share, self.weight)

    def __str__(self) -> str:
        """'saves 67 %, 46.2 ms', 'saves about 66 % of a warm step, 2.95 ms; of all 22 %, 30.1 ms (as one program); after 1: 80 % ...'."""
        sure = {"replayed": "", "within 2 %": "", "about": "about ", "at least": "at least "}[self.how]
        within = "within 2 %" if self.how == "within 2 %" else ""
        notes = "; ".join(note for note in (within, self.basis) if note)
        then = f"; after {numbers_text(self.after)}: {share_text(self.after_share, 1)} of {self._rest}" if self.after else ""
        if self.after and not self.cycles and not self.step_cycles:
            return f"saves nothing by itself{then}"
        return f"{'frees' if self.tile_bytes else 'saves'} {sure}{self._amount}{f' ({notes})' if notes else ''}{then}"

    @property
    def _rest(self) -> str:
        return "the time that is left" if self.step_share is None else "the warm step that is left"

    @property
    def _amount(self) -> str:
        if self.tile_bytes:
            return f"{bytes_text(self.tile_bytes)} a tile"
        whole = f"{share_text(self.share, 1)}, {time_text(self.seconds)}"
        if self.step_share is None:
            return whole
        if self.step_share < LEAST_SHARE / 10:
            longer = self.step_share < -LEAST_SHARE
            step = f"takes {share_text(-self.step_share, 1)} longer" if longer else "stays as it is"
            return f"{whole}, once: a warm step {step}"
        total = "" if self.warm_only else f"; of all {whole}" if self.cycles > 0 else "; of all nothing yet"
        return f"{share_text(self.step_share, 1)} of a warm step, {time_text(self.step_seconds)}{total}"

    def as_document(self) -> dict[str, object]:
        """It in the profile's JSON document: None for what nobody knows."""
        tile = bool(self.tile_bytes)
        return {
            "gain_cycles": None if tile or self.warm_only else self.cycles,
            "gain_share": None if tile or self.warm_only else self.share,
            "gain_step_cycles": self.step_cycles,
            "gain_step_share": self.step_share,
            "gain_after": list(self.after),
            "gain_after_share": self.after_share if self.after else None,
            "gain_tile_bytes": self.tile_bytes if tile else None,
            "how": self.how,
            "basis": self.basis,
        }


@dataclass(frozen=True, kw_only=True)
class Together:
    """What several findings save if all are followed.

    Attributes:
        gain: of all edits, played one after the other on the same history.
        numbers: of the findings, from 1, whose edits it has.
        left: of those whose edits cannot be played with the others, or save nothing beside them.
        why: of each of `left`: 'same line': it is another edit of a line that has one already; 'saves nothing' beside the others;
            'not played': it cannot be made with them, or not be played at all.
    """

    gain: Gain
    numbers: tuple[int, ...]
    left: tuple[int, ...] = ()
    why: tuple[Left, ...] = ()

    def as_document(self) -> dict[str, object]:
        """It in the profile's JSON document."""
        return {
            **self.gain.as_document(),
            "numbers": list(self.numbers),
            "left": list(self.left),
            "why": list(self.why),
        }


@dataclass(frozen=True, kw_only=True)
class Other:
    """Another edit for the same finding, which saves less, or up to a tenth more than one that comes first.

    Attributes:
        edit: what to change, as one line.
        gain: what that saves in place of the finding's own edit.
    """

    edit: str
    gain: Gain

    def __str__(self) -> str:
        """'send x as float16: saves about 27 %, 7.63 ms (with half of the bytes)'."""
        return f"{self.edit}: {self.gain}"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A finding about a profile, with a way out.

    Attributes:
        kind: what it is about.
        text: one sentence or two.
        edit: what to change, as one line; '' if the sentences say all.
        line: where; None if that is unknown or nowhere.
        shares: lines that make what it is about, with their shares of it, the largest first; () where it is about one line.
        gain: what the edit saves; None if nobody knows.
        unknown: why nobody knows; '' with a gain.
        others: other edits for the same, the best first.
        urgent: whether the program cannot run on a real machine as it is.
    """

    kind: FindingKind
    text: str
    edit: str = ""
    line: Line | None = None
    shares: tuple[tuple[Line, float], ...] = ()
    gain: Gain | None = None
    unknown: str = ""
    others: tuple[Other, ...] = ()
    urgent: bool = False

    @property
    def is_aside(self) -> bool:
        """Whether it says what would be if, or what nobody has to follow."""
        return self.kind in ASIDE and not self.urgent

    @property
    def part(self) -> Literal["first", "fixed", "aside"]:
        """Among which it stands: what to do, costs that are paid once, or what is worth knowing."""
        return "first" if not self.is_aside else "fixed" if self.kind in FIXED else "aside"

    @property
    def headline(self) -> str:
        """'donate state (train.py:41): saves 67 %, 46.2 ms', '... (toy.py:67 and 7 other lines): ...'; '' without an edit."""
        if not self.edit:
            return ""
        beside = len(self.shares) - 1
        more = "" if beside < 1 else f" and {beside:,} other {'line' if beside == 1 else 'lines'}"
        where = "" if self.line is None else f" ({self.line}{more})"
        return f"{self.edit}{where}" + ("" if self.gain is None else f": {self.gain}")

    def as_document(self) -> dict[str, object]:
        """The finding in the profile's JSON document."""
        unknown = dict.fromkeys(Gain(how="about").as_document(), None)
        return {
            "text": self.text,
            "kind": self.kind,
            "headline": self.headline,
            "edit": self.edit,
            "line": None if self.line is None else {"file": self.line.file, "line": self.line.number},
            "lines": [{"file": line.file, "line": line.number, "share": share} for line, share in self.shares],
            **({**unknown, "basis": ""} if self.gain is None else self.gain.as_document()),
            "unknown": self.unknown,
            "others": [{"edit": other.edit, **other.gain.as_document()} for other in self.others],
            "urgent": self.urgent,
        }
