"""Reads recordings: `tilestep.open_report(path)`."""

from __future__ import annotations

from tilestep.report.reader.blocks import Block as Block
from tilestep.report.reader.causes import CriticalPath as CriticalPath
from tilestep.report.reader.causes import Unkept as Unkept
from tilestep.report.reader.causes import Wait as Wait
from tilestep.report.reader.compilation import Compilation as Compilation
from tilestep.report.reader.compilation import CompiledProgram as CompiledProgram
from tilestep.report.reader.compilation import Target as Target
from tilestep.report.reader.events import Event as Event
from tilestep.report.reader.events import Lane as Lane
from tilestep.report.reader.execution import Execution as Execution
from tilestep.report.reader.lines import SourceLine as SourceLine
from tilestep.report.reader.memory import LivenessStep as LivenessStep
from tilestep.report.reader.memory import MemoryReport as MemoryReport
from tilestep.report.reader.memory import Variable as Variable
from tilestep.report.reader.programs import GlobalExchange as GlobalExchange
from tilestep.report.reader.programs import HostExchange as HostExchange
from tilestep.report.reader.programs import OnTileExecute as OnTileExecute
from tilestep.report.reader.programs import ProgramNode as ProgramNode
from tilestep.report.reader.programs import ProgramSequence as ProgramSequence
from tilestep.report.reader.programs import ProgramVisitor as ProgramVisitor
from tilestep.report.reader.programs import Repeat as Repeat
from tilestep.report.reader.programs import StreamCopy as StreamCopy
from tilestep.report.reader.programs import Switch as Switch
from tilestep.report.reader.report import Report as Report
from tilestep.report.reader.report import open_report as open_report
from tilestep.report.reader.runs import Run as Run
from tilestep.report.reader.runs import Step as Step
from tilestep.report.reader.spans import Span as Span
from tilestep.report.reader.system import System as System
