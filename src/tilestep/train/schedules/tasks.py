"""Tasks of pipelines: what there is to do, how long it takes, and when it happens."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, final, get_args

from tilestep.messages import shown

_TASK: Final = re.compile(r"([0-9]+)([FBIWUSL])([0-9]*)")
_MOST_DIGITS: Final = 18  # of a number in a task: no schedule has so many tasks, and reading thousands of digits takes long

Weights = Literal["same", "stale", "stashed"]
WEIGHTS: Final[tuple[str, ...]] = get_args(Weights)


class Kind(enum.StrEnum):
    """What a task does. The letters are those of PyTorch's schedules where it has them."""

    FORWARD = "F"
    BACKWARD = "B"  # gradients of the inputs and of the weights
    INPUT_GRADIENT = "I"  # of the inputs alone
    WEIGHT_GRADIENT = "W"  # of the weights alone, after that of the inputs
    UPDATE = "U"  # the optimiser
    STORE = "S"  # what the backward needs goes to another memory
    LOAD = "L"  # and comes back

    @property
    def meaning(self) -> str:
        """In words, such as "input gradient"."""
        return self.name.lower().replace("_", " ")


class Task(NamedTuple):
    """One thing that one device does. Written as "2F3": stage 2, forward, microbatch 3; "2U": the update at the end of a run.

    Attributes: microbatch: None for an update that is for all microbatches.
    """

    stage: int
    kind: Kind
    microbatch: int | None = None

    def __str__(self) -> str:
        return f"{self.stage}{self.kind.value}{'' if self.microbatch is None else self.microbatch}"

    @classmethod
    def parse(cls, text: str) -> Task:
        """The task that `str` wrote. Raises: ValueError for any other text, TypeError for what is none."""
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{shown(text)} is a {type(text).__name__}: it must be text such as 2F3, which str() makes of a Task")
        match = _TASK.fullmatch(text.strip())
        if match is None or (match[3] == "" and match[2] != Kind.UPDATE):
            raise ValueError(
                f"{shown(text)} is no task: it must be a stage, one of F B I W U S L, and a microbatch, such as 2F3; 2U is allowed"
            )
        stage, letter, microbatch = match.groups()
        digits = max(len(stage), len(microbatch))
        if digits > _MOST_DIGITS:
            raise ValueError(f"{shown(text)} is no task: it has a number of {digits} digits, and {_MOST_DIGITS} is the most")
        return cls(int(stage), _KINDS[letter], int(microbatch) if microbatch else None)


_KINDS: Final = {kind.value: kind for kind in Kind}


@dataclass(frozen=True, kw_only=True)
class Costs:
    """How long tasks take, in one unit of time: a number for all stages, or a sequence with one for each.

    Attributes:
        backward: None: twice `forward`.
        input_gradient: None: half of `backward`.
        weight_gradient: None: what `backward` is more than `input_gradient`.
        update: of a stage.
        store, load: of what a microbatch leaves on a stage.
        transfer: of a stage's outputs to another device.
        gradient_transfer: of the gradients of a stage's outputs, from another device. None: as `transfer`.
        element: of what comes from the host for each forward of a first stage, just before it. The device waits for it.
        collect: of putting together what a last stage returned of all microbatches, after its last task.
        results: of that to the host.
    """

    forward: float | Sequence[float] = 1.0
    backward: float | Sequence[float] | None = None
    input_gradient: float | Sequence[float] | None = None
    weight_gradient: float | Sequence[float] | None = None
    update: float | Sequence[float] = 0.0
    store: float | Sequence[float] = 0.0
    load: float | Sequence[float] = 0.0
    transfer: float | Sequence[float] = 0.0
    gradient_transfer: float | Sequence[float] | None = None
    element: float = 0.0
    collect: float = 0.0
    results: float = 0.0

    def of(self, kind: Kind, stage: int) -> float:
        """How long a task takes. Raises: IndexError if a sequence has none for that stage."""

        def at(value: float | Sequence[float]) -> float:
            return value[stage] if isinstance(value, Sequence) else value

        def backward() -> float:
            return 2 * at(self.forward) if self.backward is None else at(self.backward)

        def input_gradient() -> float:
            return backward() / 2 if self.input_gradient is None else at(self.input_gradient)

        match kind:
            case Kind.FORWARD:
                return at(self.forward)
            case Kind.BACKWARD:
                return backward()
            case Kind.INPUT_GRADIENT:
                return input_gradient()
            case Kind.WEIGHT_GRADIENT:
                return backward() - input_gradient() if self.weight_gradient is None else at(self.weight_gradient)
            case Kind.UPDATE:
                return at(self.update)
            case Kind.STORE:
                return at(self.store)
            case Kind.LOAD:
                return at(self.load)

    def passing(self, giver: int, taker: int) -> float:
        """How long it takes until one stage has what another one made for it: outputs of an earlier stage, gradients of a later one."""
        back = self.gradient_transfer if giver > taker and self.gradient_transfer is not None else self.transfer
        return back[min(giver, taker)] if isinstance(back, Sequence) else back


ONE_EACH: Final = Costs()  # a forward takes 1, a backward 2
SLOTS: Final = Costs(forward=1, backward=1, input_gradient=1, weight_gradient=1)  # every task that computes takes one slot


@final
@dataclass(frozen=True, kw_only=True)
class Timeline:
    """When the tasks of a schedule happen, if they take so long.

    Attributes:
        begin: of each task, from the first one's on.
        end: of each task.
        makespan: from the first task's begin to the last one's end.
        busy: of each device, how long it does something.
    """

    begin: Mapping[Task, float]
    end: Mapping[Task, float]
    makespan: float
    busy: tuple[float, ...]

    @property
    def bubble(self) -> float:
        """The part of all devices' time in which they wait, from 0 to 1."""
        return 1 - sum(self.busy) / (len(self.busy) * self.makespan) if self.makespan else 0.0
