"""All sections of a page."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tilestep.figures.reader import Report
from tilestep.views.page.block import PageBlock
from tilestep.views.page.sections import comparison, findings, head, memory, source, steps
from tilestep.views.page.sections.execution import section as execution
from tilestep.views.page.sections.pipeline import section as pipeline

Section = Callable[[Report], PageBlock | None]
SECTIONS: Final[Mapping[str, Section]] = MappingProxyType(
    {
        "head": head.head,
        "findings": findings.findings,
        "memory": memory.memory,
        "source": source.source,
        "steps": steps.steps,
        "execution": execution.execution,
        "pipeline": pipeline.pipeline,
    }
)
ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **head.ORIGINS,
        **findings.ORIGINS,
        **memory.ORIGINS,
        **source.ORIGINS,
        **steps.ORIGINS,
        **execution.ORIGINS,
        **pipeline.ORIGINS,
        **comparison.ORIGINS,
    }
)
"""Where the numbers of a page come from: a sentence for each key that a view names beside a number."""
