"""The figures of a run: a recording read back, emulated time and memory as records, and two recordings side by side."""

from tilestep.figures.records import ProgramProfile as ProgramProfile
