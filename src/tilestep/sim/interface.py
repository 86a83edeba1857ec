"""A program's arguments and results, as a dispatch needs them."""

from __future__ import annotations

from typing import final

from tilestep.plan.steps import Program

Input = tuple[int, bool, bool]  # bytes; whether it stays in pinned_host and never streams in whole; whether a result takes over its SRAM
Output = tuple[int, bool, bool]  # bytes; whether it takes over an argument's SRAM; whether the program itself writes it to pinned_host


@final
class Interface:
    """Arguments and results of one program: plain tuples, because every dispatch unpacks them.

    Attributes:
        inputs: the arguments.
        outputs: the results.
        donated: positions of arguments whose SRAM a result takes over.
        kept_bytes: of these arguments.
        vacated: positions of donated arguments in pinned_host.
        layouts: how each argument is laid out over the tiles; '' if any layout will do.
        kept_layouts: the same for each result; '' if the result takes over no argument's memory.
        bytes_to_host: of the results that stream out, on one IPU.
    """

    __slots__ = ("bytes_to_host", "donated", "inputs", "kept_bytes", "kept_layouts", "layouts", "outputs", "vacated")

    def __init__(self, program: Program) -> None:
        arguments, results = program.arguments, program.results
        kept = [argument.result is not None and not argument.on_host for argument in arguments]
        self.inputs: tuple[Input, ...] = tuple((a.size_bytes, a.on_host, is_kept) for a, is_kept in zip(arguments, kept, strict=True))
        self.outputs: tuple[Output, ...] = tuple((r.size_bytes, r.argument is not None and not r.on_host, r.on_host) for r in results)
        self.donated = tuple(position for position, is_kept in enumerate(kept) if is_kept)
        self.kept_bytes = sum(arguments[position].size_bytes for position in self.donated)
        self.vacated = tuple(position for position, a in enumerate(arguments) if a.result is not None and a.on_host)
        self.layouts = tuple(argument.layout for argument in arguments)
        self.kept_layouts = tuple("" if r.argument is None else self.layouts[r.argument] for r in results)
        self.bytes_to_host = sum(result.size_bytes for result in results if result.argument is None and not result.on_host)
