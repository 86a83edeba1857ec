"""Simulates planned programs: virtual clocks of host, IPUs and links."""

from tilestep.sim.recurrence import Recurrence as Recurrence
from tilestep.sim.state.ledger import ProgramTotals as ProgramTotals
from tilestep.sim.state.residency import Group as Group
from tilestep.sim.state.residency import TileUse as TileUse
from tilestep.sim.system import Mark as Mark
from tilestep.sim.system import System as System
from tilestep.sim.trace import KINDS as KINDS
from tilestep.sim.trace import Event as Event
from tilestep.sim.trace import EventKind as EventKind
from tilestep.sim.trace import Trace as Trace
