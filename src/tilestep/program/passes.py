"""Passes over the computations of a module: each takes one computation, and returns it as it is to be planned."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tilestep.program.context import Context, Origin
from tilestep.program.copies import body_origins, entry_origins, reader_origins
from tilestep.program.hlo import Computation, HloModule

Pass = Callable[[Computation, Context], Computation]


def passed(module: HloModule, passes: Sequence[Pass], *, clusters: bool = True) -> HloModule:
    """The module with the passes applied in their order to the entry, and to the computations of all control flow."""
    done: dict[str, Computation] = {}

    def visit(computation: Computation, origins: Mapping[str, Origin]) -> None:
        if computation.name in done:
            return
        context = Context(computations=module.computations, origins=origins, clusters=clusters)
        found = computation
        for each in passes:
            found = each(found, context)
        done[computation.name] = found
        for instruction in computation.instructions:
            if instruction.opcode == "while":
                body, condition = (module.computations[instruction.called(key)[0]] for key in ("body", "condition"))
                visit(body, body_origins(body))
                visit(condition, reader_origins(condition))
            elif instruction.opcode == "conditional":
                for arm in (module.computations[name] for name in instruction.calls):
                    visit(arm, reader_origins(arm))

    visit(module.entry, entry_origins(module.entry, module.input_output_aliases))
    return replace(module, entry=done[module.entry.name], computations={**module.computations, **done})
