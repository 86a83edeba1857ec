"""What view Pipeline reads."""

from __future__ import annotations

from tilestep.report.page.sections.pipeline.section import ORIGINS as ORIGINS
from tilestep.report.page.sections.pipeline.section import pipeline as pipeline
