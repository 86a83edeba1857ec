"""Words of the machine that the page explains where it says them. docs/glossary.md has the same sentences, as a test demands."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

TERMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "IPU": "A processor of some 1,472 tiles with all its memory on chip.",
        "tile": "A core with its own memory. It reads no other tile's memory; data are sent to it.",
        "vertex": "A piece of code that one worker runs on its tile's memory.",
        "superstep": "One round of the machine: an exchange, then compute on every tile, with a sync between phases.",
        "exchange": "The phase in which tiles send data to each other, on one chip.",
        "sync": "The barrier that every tile reaches before the next phase begins.",
        "SRAM": "The memory on the chip, 624 KiB a tile on Mk2 and Bow.",
        "IPU-Machine": "A box of four IPUs with streaming memory.",
        "pod": "IPU-Machines that are linked, such as a Bow Pod16 with 16 IPUs.",
        "IPU-Link": "The connection between IPUs.",
        "gateway": "The connection of an IPU-Machine to other racks.",
        "host link": "The connection between the host's computer and an IPU.",
        "streaming memory": "The DRAM of an IPU-Machine, outside of the chip. JAX calls it pinned_host.",
        "I/O tiles": "Tiles set apart to move data to and from the host while the others compute.",
        "matrix unit": "The part of a tile that multiplies matrices.",
        "AMP": "The part of a tile that multiplies matrices.",
        "vector unit": "The part of a tile that computes on two floats or four halves at once.",
        "codelet": "The code of a vertex.",
        "partials": "The sums that parts of a matrix product make before they are added up.",
        "vertex state": "What a tile keeps about each vertex that runs on it, beside its code.",
        "exchange code": "The instructions by which a tile sends and receives in each exchange. Each exchange has its own.",
        "HLO": "XLA's language of operations. tilestep reads the HLO of each device.",
        "dispatch": "The host's call that starts a program on a device.",
        "donation": "Giving up an argument's memory to a result (donate_argnums). A donated value stays on the IPU.",
        "resident": "In the IPU's memory between two runs.",
        "program group": "Several programs that are one program per IPU: between them nothing is reloaded.",
        "collective": "An operation of several IPUs together, such as adding up one array of each: an exchange between IPUs.",
        "host call": "A transfer between the host and the IPU within a run of a program, such as that of a callback.",
        "family": "What kind of work an operation is, such as matmul, elementwise or reduce.",
        "estimator": "The formula for the time of one operation (cost model).",
        "dry run": "A run without values: time and memory only.",
        "fallback": "The rough price of an operation that has no estimator. It is always listed.",
        "microbatch": "The data of one forward and backward.",
        "accumulation": "Adding up the gradients of several microbatches before one update.",
        "replica": "A copy of the model with its own data.",
        "global batch": "microbatch size * accumulation * replicas: the samples of one update.",
        "pipeline": "A model in stages on several devices, which work on different microbatches at once.",
        "stage": "A part of a model that is on a device of its own.",
        "schedule": "The order of the tasks of each device.",
        "bubble": "The share of time in which devices wait.",
        "stash": "The activations that a stage keeps for its backward.",
        "recomputation": "Computing activations again for the backward instead of keeping them.",
        "offload": "Keeping state in the host's or the streaming memory between updates.",
        "emulated time": "The time that the machine would have taken. It is the same in every run.",
        "wall time": "The time that your computer takes. It is never compared with emulated time.",
        "lane": "Something that does one thing after the other, in a picture of time: an IPU, a link, the host.",
        "critical path": "The chain of events that decided the end: each decided when the next began.",
        "roofline": "A picture of what operations reach, below the limits of exchange and of the matrix units.",
        "set-up": "What a program takes before its steps take the same time each: loads, and values that come for the first time.",
        "knob": "A figure of the machine that tilestep report what-if turns.",
        "fingerprint": "A number of a program, equal for equal code, options and machine.",
    }
)
