"""Reads programs: their HLO as frozen data, without XLA:CPU's own rewrites."""

from tilestep.program.hlo import Computation as Computation
from tilestep.program.hlo import HloModule as HloModule
from tilestep.program.hlo import Instruction as Instruction
from tilestep.program.hlo import parse_hlo as parse_hlo
from tilestep.program.shapes import Shape as Shape
from tilestep.program.work import ArrayShape as ArrayShape
from tilestep.program.work import Work as Work
