"""Poplar's engine options that do nothing here: their names, the values that they may have, and why they have no effect.

A program that sets one runs as it is, and its profile says that the option did nothing. docs/reference/engine-options.md has this table.
The names are those that published programs and the documentation of the original runtime use.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Kind = Literal["flag", "whole number", "number", "text", "word"]


@dataclass(frozen=True, kw_only=True)
class Key:
    """What one engine option may be.

    Attributes:
        kind: of its value: true or false; a whole number from 0; a number from 0; any text; nothing but one of the words.
        words: values that it may have besides.
        why: it has no effect, as a part of a sentence.
    """

    kind: Kind
    words: tuple[str, ...] = ()
    why: str

    @property
    def allowed(self) -> str:
        """The values that it may have, for messages and documents."""
        kinds = {"flag": '"true" or "false"', "whole number": "a whole number from 0", "number": "a number from 0", "text": "a text"}
        choices = [f'"{word}"' for word in self.words]
        if self.kind == "word":
            return f"one of {', '.join(choices)}"
        return " or ".join([kinds[self.kind], *choices])


_EXACT = "cycles are exact without counters in the program"
_VALUES = "values are computed by XLA:CPU, which traps nothing; jax_debug_nans finds a NaN"
_NO_WAIT = "no hardware is waited for"
_NO_THREADS = "the emulated host calls back as fast as it can"
_REPLICAS = "every process emulates its own IPUs"
_EXCHANGE = "exchanges have one model, which docs/reference/cost-model.md describes"
_NO_CODE = "no code for tiles is generated"
_NO_ARCHIVE = "no binary of the tiles exists that could be written"
_COMPILER = "plans are made by another compiler"
_FORM = "recordings have one form, which holds it"
_RANDOM = "random numbers are JAX's own, which have explicit keys"

NO_EFFECT: Final[Mapping[str, Key]] = MappingProxyType(
    {
        "autoReport.outputArchive": Key(kind="flag", why=_NO_ARCHIVE),
        "autoReport.streamAtEachRun": Key(kind="flag", why="reports are written when the process ends"),
        "debug.branchRecordTile": Key(kind="whole number", why=_EXACT),
        "debug.computeInstrumentationLevel": Key(kind="word", words=("vertex", "tile", "ipu", "device"), why=_EXACT),
        "debug.executionProfile": Key(kind="text", why=_EXACT),
        "debug.floatPointOpException": Key(kind="flag", why=_VALUES),
        "debug.instrument": Key(kind="flag", why=_EXACT),
        "debug.instrumentCompute": Key(kind="flag", why=_EXACT),
        "debug.instrumentControlFlow": Key(kind="flag", why=_EXACT),
        "debug.instrumentExternalExchange": Key(kind="flag", why=_EXACT),
        "debug.nanOverflowException": Key(kind="flag", why=_VALUES),
        "debug.nanOverflowMode": Key(kind="flag", why=_VALUES),
        "debug.outputAllSymbols": Key(kind="flag", why=_NO_CODE),
        "debug.runtimeVerify": Key(kind="flag", why=_NO_CODE),
        "exchange.enablePrefetch": Key(kind="flag", why="the host link starts a transfer as soon as it is free"),
        "exchange.multicastPolicy": Key(kind="text", why=_EXCHANGE),
        "exchange.streamBufferOverlap": Key(kind="word", words=("any", "hostRearrangeOnly", "none"), why=_EXCHANGE),
        "opt.enableInlining": Key(kind="flag", why=_COMPILER),
        "opt.enableMultiAccessCopies": Key(kind="flag", why=_EXCHANGE),
        "opt.internalExchangeOptimisationTarget": Key(kind="word", words=("balanced", "cycles", "memory"), why=_EXCHANGE),
        "opt.maxCompilationThreads": Key(kind="whole number", why=_COMPILER),
        "opt.maxComputeSetsPerLoweredCopy": Key(kind="whole number", why=_COMPILER),
        "opt.maxCopyMergeSize": Key(kind="whole number", why=_COMPILER),
        "opt.useAutoloader": Key(kind="flag", why="programs are loaded at the rate that the machine's file says"),
        "prng.enableStochasticRounding": Key(kind="flag", why="results are rounded to the nearest, as XLA:CPU does"),
        "prng.seed": Key(kind="whole number", why=_RANDOM),
        "profiler.blocks.bufferSize": Key(kind="whole number", why="blocks need no memory of a tile"),
        "profiler.blocks.implicitFlush": Key(kind="flag", why="blocks need no memory of a tile"),
        "profiler.blocks.tile": Key(kind="whole number", why="all tiles of an IPU work in step, so any tile gives the same blocks"),
        "profiler.format": Key(kind="text", why=_FORM),
        "profiler.includeCycleEstimates": Key(kind="flag", why=_FORM),
        "profiler.includeFlopEstimates": Key(kind="flag", why=_FORM),
        "profiler.perExecutionStreamCopyCycles": Key(kind="flag", why=_FORM),
        "streamCallbacks.maxLookahead": Key(kind="whole number", words=("unlimited",), why=_NO_THREADS),
        "streamCallbacks.multiThreadMode": Key(kind="word", words=("singleThread", "collaborative", "dedicated"), why=_NO_THREADS),
        "streamCallbacks.numWorkerThreads": Key(kind="whole number", words=("auto",), why=_NO_THREADS),
        "streamCallbacks.numaAware": Key(kind="flag", why=_NO_THREADS),
        "target.deterministicWorkers": Key(kind="flag", words=("portable",), why=_RANDOM),
        "target.exceptionPollPeriodUs": Key(kind="whole number", why=_NO_WAIT),
        "target.extendedMemory": Key(kind="flag", why="the machine's file says how much memory there is"),
        "target.firstRuntimeReplica": Key(kind="whole number", why=_REPLICAS),
        "target.gatewayMode": Key(kind="flag", why="the machine's file says which links there are"),
        "target.hostSyncTimeout": Key(kind="number", why=_NO_WAIT),
        "target.numberRuntimeReplica": Key(kind="whole number", why=_REPLICAS),
        "target.saveArchive": Key(kind="text", why=_NO_ARCHIVE),
        "target.saveOutputVertexGraph": Key(kind="text", why=_NO_ARCHIVE),
        "target.syncMethod": Key(kind="word", words=("polling", "hybrid", "default"), why=_NO_WAIT),
        "target.syncPollPeriodUs": Key(kind="whole number", why=_NO_WAIT),
        "target.syncReplicasIndependently": Key(kind="flag", why="TILESTEP_SYNC_PATTERN says which IPUs wait for each other"),
        "target.workerStackSizeInBytes": Key(kind="whole number", why="ipu.tile.stack_bytes in the machine's file says it"),
    }
)
