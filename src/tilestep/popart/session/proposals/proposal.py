"""A proposal of stages: what each takes, as a table and as JSON, and the annotations that a model gets."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import onnx
from onnx import helper

from tilestep.messages import plain
from tilestep.popart.builder import Builder
from tilestep.popart.builder.graph import attribute_names as names
from tilestep.popart.exceptions import popart_exception

_SCHEMA: Final = "tilestep-stages"
_SCHEMA_VERSION: Final = 1
_MOST_NAME: Final = 32  # characters of an operator's name in a table
_MOST_KINDS: Final = 3  # kinds of operators that a row of a table names
_UNITS: Final = ((1024**2, "MiB"), (1024, "KiB"), (1, "B"))


@final
@dataclass(frozen=True, kw_only=True)
class StagedOperator:
    """An operator, and what it takes for one microbatch.

    Attributes:
        op_type: such as "MatMul".
        outputs: names of its outputs.
        forward_cycles: of the operator.
        backward_cycles: of the gradients of its inputs; 0 in inference.
    """

    op_type: str
    outputs: tuple[str, ...]
    forward_cycles: int
    backward_cycles: int

    @property
    def name(self) -> str:
        """Its first output, which is how a program names it."""
        return next((name for name in self.outputs if name), "")


@final
@dataclass(frozen=True, kw_only=True)
class ProposedStage:
    """Operators that make a stage.

    Attributes:
        number: of the stage, and of the IPU that it runs on.
        operators: in the model's order.
        adding_cycles: to add its gradients to those of the microbatches before; 0 in inference.
        passing_cycles: of the exchange in which all stages pass on, in training gradients as well.
        host_cycles: in which it waits for the host: for its own transfers, and for those of stages that synchronise with it.
        weights_bytes: of the variables that it reads.
        passed_bytes: of what it gives to the stage after it, for one microbatch.
    """

    number: int
    operators: tuple[StagedOperator, ...]
    adding_cycles: int
    passing_cycles: int
    host_cycles: int
    weights_bytes: int
    passed_bytes: int

    @property
    def forward_cycles(self) -> int:
        """Of all its operators."""
        return sum(operator.forward_cycles for operator in self.operators)

    @property
    def backward_cycles(self) -> int:
        """Of all its operators; 0 in inference."""
        return sum(operator.backward_cycles for operator in self.operators)

    @property
    def cycles(self) -> int:
        """Of a microbatch."""
        return self.work_cycles + self.host_cycles

    @property
    def work_cycles(self) -> int:
        """The same without the host."""
        return self.forward_cycles + self.backward_cycles + self.adding_cycles + self.passing_cycles


@final
@dataclass(frozen=True, kw_only=True)
class StageProposal:
    """Stages for a model, whose slowest is as fast as it can be. `print` shows it as a table.

    Attributes:
        machine: the name of the device's machine.
        training: whether cycles have backward.
        stages: in order; there may be fewer than were asked for.
        asked: how many stages were asked for.
        one_ipu_cycles: of a microbatch on one IPU.
        own_cycles: of the stages that the model has already, by number; none: it has none.
        notes: what to know besides, a sentence each.
    """

    machine: str
    training: bool
    stages: tuple[ProposedStage, ...]
    asked: int
    one_ipu_cycles: int
    own_cycles: Mapping[int, int] = field(default_factory=dict[int, int])
    notes: tuple[str, ...] = ()

    @property
    def slowest_cycles(self) -> int:
        """Of the slowest stage: what a full pipeline takes for a microbatch."""
        return max(stage.cycles for stage in self.stages)

    @property
    def balance(self) -> float:
        """The mean share of time in which IPUs work, if the slowest always does: from 0 to 1. Waiting for the host is left out."""
        work = [stage.work_cycles for stage in self.stages]
        return sum(work) / (len(work) * max(work)) if max(work) else 1.0

    def annotate(self, builder: Builder) -> None:
        """Writes `virtualGraph` and `pipelineStage` of each operator into the builder that made the model.

        Raises: popart_exception for a builder without these operators, or with annotations of its own.
        """
        for stage in self.stages:
            for operator in stage.operators:
                outputs = {name for name in operator.outputs if name}
                builder.virtualGraph(outputs, stage.number)
                builder.pipelineStage(outputs, stage.number)

    def annotated(self, model: bytes | onnx.ModelProto) -> bytes:
        """The model with these annotations in place of those that it has.

        Args: model: a ModelProto or its bytes.
        Raises: popart_exception if it has an operator that is not in the proposal.
        """
        proto = onnx.ModelProto()
        proto.CopyFrom(model if isinstance(model, onnx.ModelProto) else onnx.ModelProto.FromString(model))
        homes = {operator.outputs: stage.number for stage in self.stages for operator in stage.operators}
        for node in proto.graph.node:
            home = homes.get(tuple(node.output))
            if home is None:
                raise popart_exception(f"The proposal has no operator that makes {', '.join(node.output)}: it is of another model")
            kept = [each for each in node.attribute if each.name not in (names.VIRTUAL_GRAPH, names.PIPELINE_STAGE)]
            del node.attribute[:]
            node.attribute.extend([*kept, *(helper.make_attribute(name, home) for name in (names.VIRTUAL_GRAPH, names.PIPELINE_STAGE))])
        return proto.SerializeToString()

    def to_json(self) -> str:
        """All figures as JSON. Cycles are of one microbatch."""
        return json.dumps(self.as_dict(), ensure_ascii=False)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "schema": _SCHEMA,
            "version": _SCHEMA_VERSION,
            **_fields(self, "machine", "training", "asked", "slowest_cycles", "one_ipu_cycles", "balance"),
            "own_cycles": {str(number): cycles for number, cycles in sorted(self.own_cycles.items())},
            "notes": list(self.notes),
            "stages": [
                {
                    "stage": stage.number,
                    "virtual_graph": stage.number,
                    **_fields(stage, "cycles", "forward_cycles", "backward_cycles", "adding_cycles", "passing_cycles", "host_cycles"),
                    **_fields(stage, "weights_bytes", "passed_bytes"),
                    "operators": [
                        {"type": each.op_type, "outputs": list(each.outputs), **_fields(each, "forward_cycles", "backward_cycles")}
                        for each in stage.operators
                    ],
                }
                for stage in self.stages
            ],
        }

    def __str__(self) -> str:
        what = "training" if self.training else "inference"
        count = f"{len(self.stages)} stage{'s' if len(self.stages) > 1 else ''}"
        rows = [("stage", "operators", "from", "to", "cycles", "of slowest", "weights", "passed on")]
        rows += [self._row(stage) for stage in self.stages]
        lines = [f"{count} for {what} on {plain(self.machine)}, balance {self.balance:.1%}", *_table(rows)]
        if len(self.stages) > 1:
            lines.append(
                f"A full pipeline takes {self.slowest_cycles:,} cycles for a microbatch, one IPU {self.one_ipu_cycles:,} "
                f"({self.one_ipu_cycles / max(1, self.slowest_cycles):.2f} times as many)."
            )
            wait = max(stage.host_cycles for stage in self.stages)
            if wait:
                lines.append(f"Stages wait for the host for up to {wait:,} of these cycles.")
        if self.own_cycles and len(self.stages) > 1:
            own = max(self.own_cycles.values())
            lines.append(
                f"The model's own {len(self.own_cycles)} stages: the slowest takes {own:,} cycles "
                f"({own / max(1, self.slowest_cycles):.2f} times as many)."
            )
        return "\n".join([*lines, *self.notes, "Annotations:", *(f"  {line}" for line in self.annotations())])

    def annotations(self) -> list[str]:
        """The context managers that a program would write, a line for each stage."""
        return [
            f"with builder.virtualGraph({stage.number}), builder.pipelineStage({stage.number}):  # {_name(stage.operators[0])} to "
            f"{_name(stage.operators[-1])}"
            for stage in self.stages
        ]

    def _row(self, stage: ProposedStage) -> tuple[str, ...]:
        kinds = Counter(operator.op_type for operator in stage.operators).most_common()
        told = [kind if count == 1 else f"{count} {kind}" for kind, count in kinds[:_MOST_KINDS]]
        return (
            str(stage.number),
            f"{len(stage.operators)}: {', '.join(told)}{', ...' if len(kinds) > _MOST_KINDS else ''}",
            _name(stage.operators[0]),
            _name(stage.operators[-1]),
            f"{stage.cycles:,}",
            f"{stage.cycles / max(1, self.slowest_cycles):.1%}",
            _bytes(stage.weights_bytes),
            _bytes(stage.passed_bytes),
        )


def _fields(of: object, *names: str) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}


def _name(operator: StagedOperator) -> str:
    name = plain(operator.name)
    return name if len(name) <= _MOST_NAME else f"...{name[3 - _MOST_NAME :]}"


def _bytes(count: int) -> str:
    size, unit = next(((size, unit) for size, unit in _UNITS if count >= size), (1, "B"))
    return f"{count:,} B" if size == 1 else f"{count / size:,.1f} {unit}"


_LEFT: Final = (1, 2, 3)  # columns of texts


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    aligned = [
        "  ".join(
            text.ljust(width) if column in _LEFT else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return [line.rstrip() for line in aligned]
