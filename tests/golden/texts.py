"""HLO texts for tests: stored ones, and small ones written by hand."""

from pathlib import Path

from tilestep.plan.passes import WRITTEN
from tilestep.program import HloModule
from tilestep.program.inline import inline_calls
from tilestep.program.passes import passed
from tilestep.program.sink_conversions import sink_converts

_FOLDER = Path(__file__).parent / "hlo"


def hlo_text(name: str) -> str:
    """The stored text of a JAX function, see make_hlo.py."""
    return (_FOLDER / f"{name}.hlo").read_text(encoding="utf-8")


def module_text(entry: str, *, computations: str = "", head: str = "HloModule m") -> str:
    """A module whose entry computation has these lines; the first of them is line 4 if there are no other computations."""
    before = f"{computations.strip()}\n\n" if computations else ""
    lines = entry.strip("\n")
    return f"{head}\n\n{before}ENTRY %main () -> f32[] {{\n{lines}\n}}\n"


def clean(module: HloModule) -> HloModule:
    """The module as its author wrote it."""
    return passed(sink_converts(inline_calls(module)), WRITTEN)
