"""What view Execution reads: the events of all lanes, what runs did inside, the critical path and all waits."""

from __future__ import annotations

from tilestep.report.page.sections.execution.section import ORIGINS as ORIGINS
from tilestep.report.page.sections.execution.section import execution as execution
