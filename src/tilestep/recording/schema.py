"""The form of a recording: one manifest, tables of columns, and texts. docs/reference/recording-format.md is checked against this file.

A column is a one-dimensional array. Columns of one table have equal lengths, so that a table is rows. Text is kept once, in the list
`strings`; columns of text hold indices into it, and -1 where there is none. A column named after another table holds row numbers of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from tilestep.sim.calls import CALL_KINDS
from tilestep.sim.trace import KINDS

FORMAT: Final = "tilestep-recording"
# A reader refuses a higher form. Form 1 lacks the text 'options', forms 1 and 2 the tables from 'counts' to 'period' and what
# groups leave in the tiles
VERSION: Final = 3
SUFFIX: Final = ".tilestep"

Dtype = Literal["uint8", "int16", "int32", "int64", "float64"]


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table."""

    dtype: Dtype  # dtype of its elements, in memory. A file may hold any narrower whole type.
    doc: str  # meaning and unit of an element
    table: str = ""  # the table whose rows the elements number, 'strings' for text, or ''
    delta: bool = False  # whether a file holds differences to the element before, because they repeat


def _text(doc: str) -> Column:
    return Column(dtype="int32", doc=doc, table="strings")


def _row(table: str, doc: str) -> Column:
    return Column(dtype="int32", doc=doc, table=table)


def _count(doc: str, dtype: Dtype = "int64") -> Column:
    return Column(dtype=dtype, doc=doc)


LANE_KINDS: Final = (
    "host",  # the host program: dispatches, waits and reads
    "ipu",  # one IPU: number is its index
    "io",  # the I/O tiles of one IPU
    "to-ipus",  # the host link of one IPU-Machine, towards its IPUs: number is the machine's index
    "to-host",  # the same link, the other way
    "memory",  # the streaming memory of one IPU-Machine
    "gateway",  # the gateway of one IPU-Machine, outwards
    "link",  # the IPU-Links from IPU `number` to its neighbour `target`
)
EVENT_KINDS: Final[tuple[str, ...]] = (
    *KINDS,
    "dispatch",  # the host starts a run
    "wait",  # the host waits for a value
    "transfer",  # a link or memory is busy
)
CATEGORIES: Final = ("temporary", "resident", "constant", "argument", "result")  # a life has one
CALLS: Final = tuple(CALL_KINDS)  # the journal numbers them

MOST_ROWS: Final[Mapping[str, int]] = MappingProxyType(  # readers make an object of each row
    {"frames": 1_000_000, "programs": 100_000, "lanes": 100_000, "runs": 1_000_000, "processes": 100_000, "threads": 100_000}
)
TABLES: Final[Mapping[str, Mapping[str, Column]]] = MappingProxyType(
    {
        # ---------------------------------------------------------------------------------------------- compilation
        "frames": {  # lines of the user's program; row 0 is "unknown"
            "file": _text("path of the source file"),
            "function": _text("name of the function"),
            "line": _count("in the file, from 1; 0: unknown", "int32"),
            "column": _count("in the line, from 1; 0: unknown", "int32"),
            "parent": _row("frames", "frame of the caller; 0: none"),
        },
        "programs": {  # in order of first dispatch, then those that were compiled and never ran
            "key": _count("number of the program in its process"),
            "name": _text("name of the program"),
            "fingerprint": _text("hexadecimal; equal for equal StableHLO, options and machine"),
            "num_ipus": _count("IPUs that run it together", "int32"),
            "origin": _text("user, jax or group"),
            "group": _text("program group that it is a member of"),
            "detailed": _count("1: tables lives, ticks and code have its rows", "uint8"),
            "runs": _count("how often it ran"),
            "loads": _count("runs before which another program was loaded; members of a group bring their code without a load"),
        },
        "lives": {  # values in the tiles, from the first to the last tick at which they take memory
            "program": _row("programs", "the program"),
            "name": _text("of the value: the user's name or operation"),
            "category": _count("index into CATEGORIES", "uint8"),
            "size_bytes": _count("of the whole array"),
            "first": _count("tick at which it is born", "int32"),
            "last": _count("tick of its last use", "int32"),
            "tile_bytes": _count("on each tile that holds it, at most"),
            "tiles": _count("number of tiles that hold it", "int32"),
            "start_tile": _count("the first of them; they go round behind the last tile", "int32"),
            "frame": _row("frames", "line that made it; 0: unknown"),
        },
        "ticks": {  # moments of memory, in the order of the program: its begin, each step, its end; a loop's body counts once
            "program": _row("programs", "the program"),
            "step": _text("name of the superstep"),
            "leaf": _count("index of the leaf in the tree of the program, in order; -1: no leaf", "int32"),
            "temporary_tile_bytes": _count("on the fullest tile while the step runs"),
        },
        "code": {  # bytes on every tile, all the time
            "program": _row("programs", "the program"),
            "kind": _text("for example 'vertex code' or 'stacks'"),
            "tile_bytes": _count("on each tile"),
            "fixed": _count("1: no program can use them otherwise; 0: they are loaded with the program", "uint8"),
        },
        # ------------------------------------------------------------------------------------------------ execution
        "lanes": {
            "kind": _count("index into LANE_KINDS", "uint8"),
            "number": _count("index of the IPU or IPU-Machine; 0 for the host", "int32"),
            "target": _count("the neighbour of a link; -1 for other lanes", "int32"),
        },
        "runs": {  # in order of dispatch
            "program": _row("programs", "the program"),
            "host_cycle": _count("at which the host has dispatched it"),
            "group": _text("program group around the dispatch"),
            "entry": _count("number of the entry into the group; 0: none"),
            "stage": _count("of the pipeline; -1: none", "int32"),
            "task": _text("kind of the pipeline's task; of a run with stage -1: the name that the program gave it"),
            "microbatch": _count("of the pipeline; -1: none", "int32"),
        },
        "trips": {  # how often a run took its data-dependent loops and branches
            "run": _row("runs", "the run"),
            "position": _count("device position within the program", "int32"),
            "site": _count("number of the loop or branch in the program's tree", "int32"),
            "arm": _count("of the branch; 0 for a loop", "int32"),
            "times": _count("how often"),
        },
        "events": {  # in the order in which they were worked out; those of one lane are in order of time
            "lane": _row("lanes", "where it happened"),
            "kind": _count("index into EVENT_KINDS", "uint8"),
            "start": Column(dtype="int64", doc="first cycle", delta=True),
            "end": Column(dtype="int64", doc="the cycle behind the last", delta=True),
            "run": Column(dtype="int32", doc="the run; -1: none", table="runs", delta=True),
            "program": _row("programs", "the program; -1: none"),
            "cause": Column(dtype="int32", doc="the event whose end decided the start; -1: none", table="events", delta=True),
        },
        "sums": {  # over all runs, also those without events
            "program": _row("programs", "the program"),
            "ipu": _count("index of the IPU", "int32"),
            "kind": _count("index into EVENT_KINDS", "uint8"),
            "cycles": _count("in all runs together"),
        },
        "counts": {  # over all runs: how often data-dependent loops and branches were taken
            "program": _row("programs", "the program"),
            "ipu": _count("index of the IPU", "int32"),
            "site": _count("number of the loop or branch in the program's tree", "int32"),
            "arm": _count("of the branch; 0 for a loop", "int32"),
            "times": _count("in all runs together"),
        },
        "host_bytes": {  # a row for each program that ran, or whose results were read; bytes of all its IPUs together
            "program": _row("programs", "the program"),
            "dispatches": _count("runs that were dispatched by themselves; those of a group are dispatched with it"),
            "host_bytes_in": _count("arguments of most runs, the program's very first left out; without restored values"),
            "host_bytes_out": _count("results of most runs, likewise; without saved values"),
            "first_run_host_bytes_in": _count("arguments of the first run of the recording"),
            "host_bytes_saved": _count("values of evicted programs, saved because this program uses them; all runs together"),
            "host_bytes_restored": _count("values that returned to the SRAM from which they were evicted; all runs together"),
            "host_bytes_read": _count("results in SRAM that the host read; all runs together"),
        },
        "again": {  # arguments that streamed in although the program had stayed loaded
            "program": _row("programs", "the program"),
            "argument": _count("position among the arguments that the program takes", "int32"),
            "refed": _count("runs in which it was a result of the program, on every IPU"),
            "repeated": _count("runs in which the same value had streamed in before, on every IPU"),
        },
        "groups": {  # program groups, on the IPU whose tiles they fill most
            "name": _text("of the group"),
            "ipu": _count("index of the IPU", "int32"),
            "peak_tile_bytes": _count("on its fullest tile, all members together"),
        },
        "members": {  # the groups on those IPUs, in order of first dispatch
            "group": _row("groups", "the group"),
            "name": _text("of the program"),
        },
        "batches": {  # loops that accumulate gradients
            "loop": _text("name of the loop's programs"),
            "microbatch": _count("samples of a microbatch; -1: unknown"),
            "count": _count("microbatches that a replica accumulates for an update"),
            "replicas": _count("replicas that accumulate"),
            "microbatches": _count("of an update, all replicas together"),
            "samples": _count("of an update, all replicas together; -1: unknown"),
            "steps": _count("microbatches that each replica has done"),
        },
        "period": {  # one row
            "begin": _count("cycle at which all earlier work had ended"),
            "end": _count("cycle at which all work of the recording had ended"),
            "dropped": _count("events that the emulator did not keep, of all runs"),
        },
        # ------------------------------------------------------------------- the journal: calls that can be played again
        "calls": {"call": _count("index into CALLS", "uint8")},
        "call_notes": {
            "note": _count("of a dispatch, a wait or a read: row of text call_lines, from 1; of a put: equal for equal bytes; 0: unknown")
        },
        "numbers": {"number": _count("of the calls, one after the other; sim/calls.py says which")},
        # --------------------------------------------------------------------------------------- the system, in wall time
        "processes": {
            "pid": _count("of the operating system"),
            "name": _text("its command"),
        },
        "threads": {
            "process": _row("processes", "the process"),
            "tid": _count("of the operating system"),
            "name": _text("of the thread"),
        },
        "channels": {"name": _text("of the channel")},
        "spans": {  # tracepoints, and what the host's threads did
            "thread": _row("threads", "the thread"),
            "channel": _row("channels", "the channel"),
            "label": _text("what it did"),
            "start_ns": Column(dtype="int64", doc="wall clock, from the recording's begin", delta=True),
            "duration_ns": _count("0: an instant"),
            "parent": _row("spans", "the span around it; -1: none"),
        },
        "series": {
            "name": _text("of the line"),
            "graph": _text("of the graph that it is in"),
            "unit": _text("of its values"),
        },
        "points": {
            "series": _row("series", "the line"),
            "time_ns": Column(dtype="int64", doc="wall clock, from the recording's begin", delta=True),
            "value": _count("in the line's unit", "float64"),
        },
        "heat_maps": {
            "name": _text("of the heat map"),
            "unit": _text("of its edges"),
        },
        "edges": {
            "heat_map": _row("heat_maps", "the heat map"),
            "edge": _count("between two cells, ascending", "float64"),
        },
        "heat": {  # cells that are not 0
            "heat_map": _row("heat_maps", "the heat map"),
            "time_ns": Column(dtype="int64", doc="wall clock, from the recording's begin", delta=True),
            "cell": _count("0: below the first edge", "int32"),
            "times": _count("how many values fell into it"),
        },
    }
)
TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "strings": "JSON list: the texts that columns number",
        "trees": "JSON list: the tree of each program, in the order of table programs, as plan/serialized.py writes it; null: not kept",
        "snapshot": "JSON list: the simulated machine when the recording began, as sim/snapshot.py declares it",
        "call_names": "JSON list: what numbers of calls stand for, as recording/call_tables.py declares it",
        "call_lines": "JSON list: [path, number] of each line of the host program that made a call; absent with --no-source",
        "machine": "JSON object: name, description, and every field of the machine, by its path",
        "profile": "JSON object: the figures of the profile, as profile.json has them, without the timeline",
        "hlo": "JSON list: the HLO of each program as it was planned; null: not kept",
        "options": "JSON list: the options of each program's plan, an object with the fields of PlanOptions (options.py); null: unknown",
        "sources": "JSON object: path -> text of the user's source files that frames name; absent with --no-source",
    }
)
