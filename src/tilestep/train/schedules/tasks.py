"""The tasks of a pipeline, how long each takes, and when each happens."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, final, get_args

from tilestep.messages import shown

_TASK: Final = re.compile(r"([0-9]+)([FBIWUSLPQ])([0-9]*)")
_MOST_TASK_DIGITS: Final = 18  # no schedule has so many tasks, and reading thousands of digits takes long

Weights = Literal["same", "stale", "stashed"]
WEIGHTS: Final[tuple[str, ...]] = get_args(Weights)


class Kind(enum.StrEnum):
    """The kinds of tasks. The letters are those of PyTorch's schedules where it has them."""

    FORWARD = "F"
    BACKWARD = "B"  # gradients of the inputs and of the weights
    INPUT_GRADIENT = "I"
    WEIGHT_GRADIENT = "W"  # after that of the inputs
    UPDATE = "U"  # the optimiser
    STORE = "S"  # moves the values that backward needs to another memory
    LOAD = "L"  # moves them back
    LOAD_PARAMETERS = "P"  # moves the stage's parameters from another memory to the device
    STORE_PARAMETERS = "Q"  # moves updated parameters back

    @property
    def meaning(self) -> str:
        """In words, such as "input gradient"."""
        return self.name.lower().replace("_", " ")


class Task(NamedTuple):
    """One thing that one device does, as text "2F3": stage 2, forward, microbatch 3; "2U": the update at the end of a run.

    Attributes:
        stage: its number, from 0 on.
        kind: what the task does.
        microbatch: its number, from 0 on; None for an update that is for all microbatches. Of loads and stores of parameters it is how
            many of these the stage has had before in the run.
    """

    stage: int
    kind: Kind
    microbatch: int | None = None

    def __str__(self) -> str:
        return f"{self.stage}{self.kind.value}{'' if self.microbatch is None else self.microbatch}"

    @classmethod
    def parse(cls, text: str) -> Task:
        """The task that `str` wrote.

        Args:
            text: such as "2F3".

        Raises:
            TypeError: if `text` is no text.
            ValueError: for any other text.
        """
        if not isinstance(text, str):
            raise TypeError(f"{shown(text)} is a {type(text).__name__}: it must be text such as 2F3, which str() makes of a Task")
        match = _TASK.fullmatch(text.strip())
        if match is None or (match[3] == "" and match[2] != Kind.UPDATE):
            raise ValueError(
                f"{shown(text)} is no task: it must be a stage, one of F B I W U S L P Q, and a number, such as 2F3; 2U is allowed"
            )
        stage, letter, microbatch = match.groups()
        digits = max(len(stage), len(microbatch))
        if digits > _MOST_TASK_DIGITS:
            raise ValueError(f"{shown(text)} is no task: it has a number of {digits} digits, and {_MOST_TASK_DIGITS} is the most")
        return cls(int(stage), _KINDS[letter], int(microbatch) if microbatch else None)


_KINDS: Final = {kind.value: kind for kind in Kind}
OF_PARAMETERS: Final = frozenset({Kind.LOAD_PARAMETERS, Kind.STORE_PARAMETERS})


@dataclass(frozen=True, kw_only=True)
class Costs:
    """How long tasks take, in one unit of time. A cost is a number for all stages, or a sequence with one for each.

    Attributes:
        forward: of a microbatch through a stage.
        backward: of a microbatch; None: twice `forward`.
        input_gradient: of a microbatch; None: half of `backward`.
        weight_gradient: of a microbatch; None: the rest of `backward` after `input_gradient`.
        update: of a stage.
        store: of the values that a microbatch leaves on a stage for backward, to another memory.
        load: of these values, back.
        load_parameters: of a stage's parameters, from another memory.
        store_parameters: of these, back.
        transfer: of a stage's outputs to another device.
        gradient_transfer: of the gradients of a stage's outputs, from another device; None: as `transfer`.
        element: of an element from the host, just before each forward of a first stage. The device waits for it.
        collect: of joining a last stage's outputs of all microbatches, after its last task.
        results: of the joined outputs to the host.
        unit: of all costs, in words such as "cycles" or "s". Pictures name it.
    """

    forward: float | Sequence[float] = 1.0
    backward: float | Sequence[float] | None = None
    input_gradient: float | Sequence[float] | None = None
    weight_gradient: float | Sequence[float] | None = None
    update: float | Sequence[float] = 0.0
    store: float | Sequence[float] = 0.0
    load: float | Sequence[float] = 0.0
    load_parameters: float | Sequence[float] = 0.0
    store_parameters: float | Sequence[float] = 0.0
    transfer: float | Sequence[float] = 0.0
    gradient_transfer: float | Sequence[float] | None = None
    element: float = 0.0
    collect: float = 0.0
    results: float = 0.0
    unit: str = ""

    def of(self, kind: Kind, stage: int) -> float:
        """How long a task takes, in `unit`.

        Raises:
            IndexError: if a sequence has no cost for that stage.
        """

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
            case Kind.LOAD_PARAMETERS:
                return at(self.load_parameters)
            case Kind.STORE_PARAMETERS:
                return at(self.store_parameters)

    def passing(self, source: int, destination: int) -> float:
        """How long a transfer between two stages takes, in `unit`: of outputs to a later stage, of gradients to an earlier one."""
        cost = self.gradient_transfer if source > destination and self.gradient_transfer is not None else self.transfer
        return cost[min(source, destination)] if isinstance(cost, Sequence) else cost


ONE_EACH: Final = Costs(unit="times of a forward")  # a forward takes 1, a backward 2
SLOTS: Final = Costs(forward=1, backward=1, input_gradient=1, weight_gradient=1, unit="slots")  # every task that computes takes one slot


@final
@dataclass(frozen=True, kw_only=True)
class Timeline:
    """When the tasks of a schedule happen. All times are in one unit.

    Attributes:
        begin: the time at which each task begins.
        end: the time at which each task ends.
        makespan: the time from the begin of the first task to the end of the last one.
        busy: for each device the time in which it does tasks.
        unit: of the times, in words such as "cycles" or "s"; empty if nobody has named it.
    """

    begin: Mapping[Task, float]
    end: Mapping[Task, float]
    makespan: float
    busy: tuple[float, ...]
    unit: str = ""

    def __repr__(self) -> str:
        tasks, devices = f"{len(self.begin):,} tasks", f"{len(self.busy):,} device{'s' * (len(self.busy) != 1)}"
        return f"<Timeline: {tasks} on {devices}, makespan {self.makespan:g}, bubble {self.bubble:.1%}>"

    @property
    def bubble(self) -> float:
        """The share of all devices' time in which they wait, from 0 to 1."""
        return 1 - sum(self.busy) / (len(self.busy) * self.makespan) if self.makespan else 0.0
