"""Reads recordings: `tilestep.open_report(path)`."""

from __future__ import annotations

from tilestep.figures.reader.blocks import Block as Block
from tilestep.figures.reader.causes import CriticalPath as CriticalPath
from tilestep.figures.reader.causes import Unkept as Unkept
from tilestep.figures.reader.causes import Wait as Wait
from tilestep.figures.reader.compilation import Compilation as Compilation
from tilestep.figures.reader.compilation import CompiledProgram as CompiledProgram
from tilestep.figures.reader.compilation import Target as Target
from tilestep.figures.reader.events import Event as Event
from tilestep.figures.reader.events import Lane as Lane
from tilestep.figures.reader.execution import Execution as Execution
from tilestep.figures.reader.lines import SourceLine as SourceLine
from tilestep.figures.reader.memory import LivenessStep as LivenessStep
from tilestep.figures.reader.memory import MemoryReport as MemoryReport
from tilestep.figures.reader.memory import Variable as Variable
from tilestep.figures.reader.programs import GlobalExchange as GlobalExchange
from tilestep.figures.reader.programs import HostExchange as HostExchange
from tilestep.figures.reader.programs import OnTileExecute as OnTileExecute
from tilestep.figures.reader.programs import ProgramNode as ProgramNode
from tilestep.figures.reader.programs import ProgramSequence as ProgramSequence
from tilestep.figures.reader.programs import ProgramVisitor as ProgramVisitor
from tilestep.figures.reader.programs import Repeat as Repeat
from tilestep.figures.reader.programs import StreamCopy as StreamCopy
from tilestep.figures.reader.programs import Switch as Switch
from tilestep.figures.reader.report import Report as Report
from tilestep.figures.reader.report import open_report as open_report
from tilestep.figures.reader.runs import Run as Run
from tilestep.figures.reader.runs import Step as Step
from tilestep.figures.reader.spans import Span as Span
from tilestep.figures.reader.system import System as System
