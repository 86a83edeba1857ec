"""Reports on a simulation: its profile as a record, as text and as JSON."""

from __future__ import annotations

from tilestep.report.advice import Finding as Finding
from tilestep.report.advice import findings as findings
from tilestep.report.figures import ProgramProfile as ProgramProfile
from tilestep.report.measure import profile_between as profile_between
from tilestep.report.profile import Profile as Profile
