"""Options of a plan, where the planners are."""

from __future__ import annotations

from tilestep.options import PlanOptions as PlanOptions
