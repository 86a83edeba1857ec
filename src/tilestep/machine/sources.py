"""The published figures behind the catalogue: each number once, with its basis, public source and uncertainty.

A figure is `documented` (a datasheet, paper or source file states it), `measured` (on hardware, published),
`derived` (arithmetic on published figures, which the text shows) or `assumed` (the text says why).
"""

from collections.abc import Mapping
from types import MappingProxyType

from tilestep.machine.fields import QUANTITIES, Basis, FieldSource, Value

KIB = 1024

_COUNTED = ("", "IPUs", "tiles", "threads")

Figures = Mapping[str, FieldSource]
"""Field path -> figure."""


DOUBTS: Mapping[Basis, tuple[float, str]] = MappingProxyType(
    {
        "documented": (0.0, "its maker states it"),
        "measured": (0.1, "one measurement"),
        "derived": (0.02, "the published figures are rounded"),
        "assumed": (0.3, "no figure is published"),
    }
)
"""Uncertainty of a figure and the reason, by its basis, where its row says nothing else."""


def figures(*rows: tuple[str, Value, Basis, str] | tuple[str, Value, Basis, str, float, str]) -> Figures:
    """A table from rows of (field path, value, basis, source), and uncertainty and reason where they are not those of the basis.

    Counts and words that are not certain have the uncertainty 0: no other is near to them.

    Raises: KeyError if a path is no field; ValueError if one is there twice.
    """
    found: dict[str, FieldSource] = {}
    for row in rows:
        path, value, basis, source = row[:4]
        if path in found:
            raise ValueError(f"two figures for {path}")
        unit = QUANTITIES[path].unit
        counted = (0.0, "a count or a word: no other is near") if unit in _COUNTED and basis != "documented" else DOUBTS[basis]
        uncertainty, doubt = (row[4], row[5]) if len(row) == 6 else counted
        found[path] = FieldSource(path=path, value=value, unit=unit, source=source, basis=basis, uncertainty=uncertainty, doubt=doubt)
    return MappingProxyType(found)


_POPLIBS = "graphcore/poplibs@7eac0f26"
_IPU_STACK = "osmarks/ipu-stack@ce7c7e9"
_M2000_SHEET = "IPU-M2000 datasheet, docs.graphcore.ai"
_BOW_SHEET = "Bow-2000 datasheet, docs.graphcore.ai"
_C600_README = "bytedance/ByteMLPerf byte_infer_perf/general_perf/backends/IPU/README.md"
_C2_README = "graphcore/legacy_drivers_and_tools README.md"
_LOUW = "Louw & McIntosh-Smith 2021, AccML (EasyChair 4896)"
_JAX_CLIENT_TEST = (
    "graphcore-research/tensorflow-jax-experimental@7033152d "
    "tensorflow/compiler/plugin/poplar/xla_client/tests/ipu_pjrt_client_base_test.py"
)

_SYNC = (
    "osmarks/ipu-stack@ce7c7e9 crates/ipu-codegen/src/cost.rs (Target::getGlobalSyncCycles), used there as the price of one exchange "
    "phase; published throughputs ask for 575 to 700 where a local start takes 100 to 0"
)
_OVERHEAD_FIT = (
    "one number fitted to 19 published throughputs (ResNet-50 and BERT inference of graphcore/PopRT, dense matmul of poptorch) for all of "
    "them together, beside the published price of a sync: rms log error 0.038 with it, 0.043 without; without ResNet-50 in fp32 it is 50, "
    "without that in fp16 125, without BERT, the matmul or what the host feeds 75 each"
)
_GATEWAY_FIT = (
    "one number fitted to how MLPerf v1.1 runs scale over racks (logs of mlcommons/training_results_v1.1): ResNet-50 from 64 to 128 and "
    "256 IPUs, BERT-Large from 64 to 128. The cables carry 25 GB/s each way (IPU-M2000 datasheet: GW-Links of 2 x 100 GbE), so programs "
    "reached a sixteenth of that"
)
_NO_STREAMING_MEMORY = "the card has no streaming memory, so nothing uses this: the host link's rate"
_REMOTE_BUFFER_FIT = (
    "one number fitted to published BERT-Large training whose optimiser state is off chip (MLPerf v1.0 and v1.1 on 16 IPUs; "
    "graphcore/examples v3.0 phase 2). The memory itself carries 38.4 GB/s at most, and images that are fed through it need more"
)
_STACKS = (
    "graphcore/tensorflow tensorflow/compiler/plugin/poplar/docs, reading the Poplar summary report: a tile's stack is 3,168 B, and 1,216 "
    "tiles of another program have 3,852,288 B"
)
_HOST_LATENCY = (
    "ResNet-50 in fp16 at batch 1 on a C600 takes 283.4 us per batch with overlapped host data and 273.7 us without (3,529 and 3,653 "
    "images/s, graphcore/PopRT examples/resnet50/README.md): 10 us that overlap cannot hide; fp8 gives 8, fp32 12"
)
_DISPATCH = f"{_JAX_CLIENT_TEST}: a test of the JAX client demands that an asynchronous dispatch takes at most 50 us; the bound is taken"
_LOAD = (
    "no figure is published; a load resets the tiles and starts a boot loader before the code travels, which is of the order of 10 ms; "
    "the bytes of code and constants are counted apart, at the host link's rate"
)
_SYNC_HOP = f"{_POPLIBS} lib/poplibs_test/Util.cpp setGlobalSyncLatency: 15 ns per hop, there and back"
_LADDER = (
    f"{_POPLIBS} lib/poplibs_test/Util.cpp addGlobalExchangeConstraints: 128 Gibit/s per link at 85 % efficiency, each IPU with 2 "
    "links up and 2 down the ladder; the 4 between the two IPUs of a pair are twice as fast, and a ring runs at its slowest edge"
)
_LINK_DOUBT = "the 85 % are those of a test of one collective"
_LADDER_BYTES_PER_SECOND = 2 * 128 * 2**30 * 0.85 / 8

_HOST_TRAFFIC = (
    "arjansiddhpura/Performance-Benchmark-Scaled-YOLOv4@34b31b4 paper3.tex: gc-hosttraffictest of one GC200, 14.55 GB/s to the IPU and "
    "6.33 from it"
)
_TO_HOST = (
    "graphcore/examples@3cc8f81 vision/efficientdet/tensorflow2/README.md has 5.5 GB/s of 8.8 MB from IPU to host through the gateway of "
    "an IPU-M2000 (the 3.1 ms that the page gives as well would be 2.8)"
)
_C600_LINK = (
    f"{_C600_README}: 32 lanes, 64 GB/s each direction; half to each of two neighbours, at the 85 % of {_POPLIBS} lib/poplibs_test/Util.cpp"
)
_C600_HOST_LINK = (
    "as measured with one GC200; dual PCIe Gen4 x8 could carry 31.5 GB/s, and ResNet-50 at batch 64 with host "
    "data (graphcore/PopRT examples/resnet50/README.md) moves 4.6 GB/s, a lower bound"
)
_GC2_HOST_LINK = (
    "as measured with one GC200; the card has two links of PCIe Gen3 x8, which could carry 15.8 GB/s (C2 card product "
    "brief, graphcore/legacy_drivers_and_tools c2/docs)"
)
_GC2_SYNC = (
    "as Mk2; 64 and 117 cycles per pass were measured on one GC2 (thorbenlouw/lbm-graphcore "
    "experiments/gaussian-blur-scaling/exchange-vs-compute.csv) and are left for judging the model"
)
_GC2_LOAD_STORE = f"{_LOUW}: 45 TB/s / 1,216 tiles / 1.6 GHz = 23.1: two 64-bit loads (16 B per cycle in the same paper) and a 64-bit store"

_NO_FLOAT8 = (
    f"{_POPLIBS} lib/poplin/ConvVertexType.cpp: a target may have no units for 8-bit floats; PopRT asks for an IPU21 to run them "
    "(graphcore/PopRT@7487d65 examples/resnet50/README.md, --precision fp8 --ipu_version ipu21)"
)
_FLOAT8 = (
    f"{_POPLIBS} lib/poplin/codelets/ConvPartial1x1Out.cpp and lib/poplin/PerformanceEstimation.hpp (...Quarter): 16 units of 32 inputs "
    f"each in 4 cycles, half partials; {_C600_README}: 560 TFLOP/s in fp8, twice the 280 in fp16"
)

_SYNC_PATTERN = (
    "graphcore/poptorch@0c468a29 python/options.py syncPattern: Full 'is the default'; graphcore/popart@d0ce16e0 "
    "docs/user_guide/performance.rst describes the three patterns"
)
_TORUS = (
    "IPU-POD64, IPU-POD128 and Bow Pod256 datasheets, docs.graphcore.ai: 2D-torus IPU-Link topology of a rack of 64; the Graphcore "
    "Communications Library's rings run straight up one side 'assuming wrap-around at the top' (poplar-api gcl/Collectives)"
)

_LINKS_AND_HOST = figures(
    ("sync_pattern", "full", "documented", _SYNC_PATTERN),
    ("simulated_ipus", 0, "documented", "all are simulated, unless the user says otherwise"),
    ("link.sync_seconds_per_hop", 15e-9, "documented", _SYNC_HOP),
    ("host.dispatch_seconds", 50e-6, "documented", _DISPATCH, 0.5, "an upper bound, and that of a test"),
    ("host.load_seconds", 10e-3, "assumed", _LOAD, 0.7, "an order of magnitude"),
)

_MK2_TILE = figures(
    ("ipu.tile.sram_bytes", 624 * KIB, "documented", f"{_IPU_STACK} crates/ipu-target/src/memory.rs TILE_MEMORY_SIZE"),
    (
        "ipu.tile.executable_bytes",
        208 * KIB,
        "derived",
        f"{_IPU_STACK} crates/ipu-target/src/memory.rs: instructions are fetched from 0x4c000 to 0x80000 only",
    ),
    ("ipu.tile.worker_contexts", 6, "documented", f"{_M2000_SHEET}: 35,328 threads on 5,888 cores"),
    (
        "ipu.tile.load_store_bytes_per_cycle",
        24,
        "derived",
        f"{_BOW_SHEET}: 261 TB/s of SRAM per 4 IPUs / 1,472 tiles / 1.85 GHz = 24.0: two 64-bit loads and one 64-bit store",
    ),
    ("ipu.tile.copy_bytes_per_cycle", 8, "documented", f"{_IPU_STACK} crates/ipu-codegen/src/cost.rs (Target::getMemcpyBytesPerCycle)"),
    (
        "ipu.tile.exchange_bytes_per_cycle",
        4,
        "documented",
        f"{_IPU_STACK} crates/ipu-codegen/src/cost.rs (Target::getExchangeBytesPerCycle)",
    ),
    ("ipu.tile.stack_bytes", 3_168, "assumed", f"as Mk1, which has as many workers: {_STACKS}"),
    (
        "ipu.tile.reserved_bytes",
        0x450,
        "documented",
        f"{_IPU_STACK} crates/ipu-target/src/memory.rs: the loader does not reach the last 0x450 bytes of a tile",
    ),
)

_MK2_IPU = figures(
    (
        "ipu.macs_per_cycle_half",
        64,
        "documented",
        "graphcore-research/tessellate-ipu@3ab241f notebooks/IPU Peak Flops.ipynb: peak = clock x tiles x 128 FLOP",
    ),
    (
        "ipu.macs_per_cycle_half_float",
        32,
        "derived",
        f"{_POPLIBS} lib/poplin/codelets/ConvPartial1x1Out.cpp: 8 units instead of 16 with float partials, 16 inputs each, 4 cycles",
    ),
    ("ipu.macs_per_cycle_float", 16, "derived", f"{_M2000_SHEET}: 0.2497 PFLOP/s in fp32 against 0.999 in fp16, a quarter of 64"),
    ("ipu.macs_per_cycle_float8", 0, "documented", _NO_FLOAT8),
    ("ipu.sync_cycles", 600, "documented", _SYNC),
    ("ipu.superstep_overhead_cycles", 75, "derived", _OVERHEAD_FIT, 0.67, "leaving families out of the fit gives 50 to 125"),
)

_MACHINE_2000 = figures(
    ("ipus_per_machine", 4, "documented", f"{_M2000_SHEET}: four IPUs per 1U IPU-Machine"),
    ("link.bytes_per_second", _LADDER_BYTES_PER_SECOND, "derived", _LADDER, 0.1, _LINK_DOUBT),
    ("link.gateway_bytes_per_second", 1.5e9, "derived", _GATEWAY_FIT, 0.3, "one number for four runs, of two programs"),
    (
        "link.ipus_per_rack",
        64,
        "documented",
        "IPU-POD128 datasheet, docs.graphcore.ai: racks of sixteen IPU-Machines joined by GW-Links",
    ),
    ("link.topology", "torus", "documented", _TORUS),
    (
        "host.to_ipus_bytes_per_second",
        14.55e9,
        "measured",
        _HOST_TRAFFIC,
        0.3,
        "one IPU's, and more than a network card of 100 GbE carries",
    ),
    (
        "host.to_host_bytes_per_second",
        6.33e9,
        "measured",
        f"{_HOST_TRAFFIC}; {_TO_HOST}",
        0.3,
        "two figures of one page are half of each other",
    ),
    ("host.link_latency_seconds", 10e-6, "assumed", f"as a C600 over PCIe; the network's share is not published. {_HOST_LATENCY}"),
    ("host.streaming_memory_bytes", 256 * 10**9, "documented", f"{_M2000_SHEET}: up to 256 GB in two DDR4 DIMMs"),
    (
        "host.streaming_memory_bytes_per_second",
        38.4e9,
        "derived",
        f"{_M2000_SHEET}: two channels of DDR4-2400 at 19.2 GB/s, a theoretical upper bound",
        0.3,
        "programs do not reach the bound of a memory",
    ),
    ("host.remote_buffer_bytes_per_second", 6e9, "derived", _REMOTE_BUFFER_FIT, 0.3, "one number for three runs, of one program"),
)

_COPY = (
    "ResNet-50 in fp16 at batch 1 on a C600-class card: 320.6 us a call that waits for its host (3,118.8 images/s, graphcore/PopRT "
    "benchmarks/resnet50/README.md), 273.7 us without host data (3,653, examples/resnet50/README.md). Of the 46.9 us between, a transfer "
    "each way waits 10, and the link takes 10.7: the host copies 152.5 KB in 16.2. With the rate below, 8.8 MB go from an IPU-M2000 to "
    "the host in 2.9 ms, where graphcore/examples@3cc8f81 vision/efficientdet/tensorflow2/README.md has 3.1"
)
_GATEWAY_MEMORY = (
    "docs.graphcore.ai, command line tools, gc-hosttraffictest: 'on IPU-M2000 systems, host transfers to and from the IPU are remotely "
    "buffered'; its example has 56.49 Gbit/s from the host to that buffer. The 14.55 GB/s of host.to_ipus_bytes_per_second, more than a "
    "network of 100 GbE carries, are those of the buffer and the IPU"
)
_UPDATE_CALL = (
    "one number fitted to MLPerf's BERT-Large whose state is on chip, on 64 and 128 IPUs with one update a call: the next call's data are "
    "stacked, the learning rate is set, the loss is read"
)

_CALL: tuple[tuple[str, float, str, Basis, str, float, str], ...] = (
    ("copy_bytes_per_second", 9.4e9, "B/s", "derived", _COPY, 0.3, "a difference of two runs of one program"),
    ("gateway_bytes_per_second", 56.49e9 / 8, "B/s", "measured", _GATEWAY_MEMORY, 0.3, "an example of a tool's output"),
    ("update_seconds", 0.1, "s", "derived", _UPDATE_CALL, 0.5, "one number for two runs of one program"),
)
HOST_CALL: Figures = MappingProxyType(
    {
        path: FieldSource(path=path, value=value, unit=unit, source=source, basis=basis, uncertainty=uncertainty, doubt=doubt)
        for path, value, unit, basis, source, uncertainty, doubt in _CALL
    }
)
"""What a call of PopART, PopTorch or PopRT waits for on any machine. `tilestep.machine.host_call` says how."""

GC200: Figures = MappingProxyType(
    {
        **_LINKS_AND_HOST,
        **_MK2_TILE,
        **_MK2_IPU,
        **_MACHINE_2000,
        **figures(
            ("ipu.generation", "Mk2 GC200", "documented", _M2000_SHEET),
            ("ipu.version", "ipu2", "documented", f"{_JAX_CLIENT_TEST}: version of devices"),
            ("ipu.num_tiles", 1472, "documented", f"{_M2000_SHEET}: 5,888 cores on 4 IPUs"),
            ("ipu.clock_hz", 1.33e9, "documented", "mlcommons/training_results_v1.0 and v1.1, Graphcore/systems/*.json"),
        ),
    }
)

BOW: Figures = MappingProxyType(
    {
        **GC200,
        **figures(
            ("ipu.generation", "Bow", "documented", _BOW_SHEET),
            ("ipu.num_tiles", 1472, "documented", f"{_BOW_SHEET}: 5,888 cores on 4 IPUs"),
            ("ipu.clock_hz", 1.85e9, "documented", _BOW_SHEET),
            ("ipus_per_machine", 4, "documented", f"{_BOW_SHEET}: four IPUs per 1U IPU-Machine"),
        ),
    }
)

C600: Figures = MappingProxyType(
    {
        **_LINKS_AND_HOST,
        **_MK2_TILE,
        **_MK2_IPU,
        **figures(
            ("ipu.generation", "C600 (IPU21)", "documented", "C600 datasheet, docs.graphcore.ai"),
            ("ipu.version", "ipu21", "documented", f"{_JAX_CLIENT_TEST}: version of devices"),
            (
                "ipu.num_tiles",
                1472,
                "derived",
                "C600 datasheet, docs.graphcore.ai: a Mk2 IPU with 900 MB in all, as 1,472 tiles of 624 KiB (897 MiB) are sold",
            ),
            ("ipu.macs_per_cycle_float8", 128, "derived", _FLOAT8),
            ("ipu.clock_hz", 1.5e9, "documented", f"{_IPU_STACK} crates/ipu-cli (default clock_hz); 280 TFLOP/s / 1,472 / 128 = 1.49 GHz"),
            ("ipus_per_machine", 1, "documented", "C600 datasheet, docs.graphcore.ai: one IPU per card"),
            (
                "link.bytes_per_second",
                0.85 * 64e9 / 2,
                "derived",
                _C600_LINK,
                0.1,
                _LINK_DOUBT,
            ),
            (
                "link.gateway_bytes_per_second",
                12.5e9,
                "assumed",
                "cards have no gateway; servers of cards are taken to share a network of 100 GbE",
            ),
            (
                "link.ipus_per_rack",
                8,
                "assumed",
                "cards that one server holds are taken to be joined by IPU-Links: eight dual-slot cards",
            ),
            ("link.topology", "ladder", "assumed", "as IPU-M2000s that do not fill a rack; cables between cards are not published"),
            ("host.to_ipus_bytes_per_second", 14.55e9, "assumed", _C600_HOST_LINK),
            ("host.to_host_bytes_per_second", 6.33e9, "assumed", _C600_HOST_LINK),
            ("host.link_latency_seconds", 10e-6, "derived", _HOST_LATENCY, 0.2, "8 to 12 us in three precisions"),
            (
                "host.streaming_memory_bytes",
                0,
                "documented",
                "C600 datasheet, docs.graphcore.ai: all the memory on the card is contained within the IPU",
            ),
            ("host.streaming_memory_bytes_per_second", 5.5e9, "assumed", _NO_STREAMING_MEMORY),
            ("host.remote_buffer_bytes_per_second", 5.5e9, "assumed", _NO_STREAMING_MEMORY),
        ),
    }
)

GC2: Figures = MappingProxyType(
    {
        **_LINKS_AND_HOST,
        **figures(
            ("ipu.generation", "Mk1 GC2", "documented", f"{_C2_README}: the C2 card's chip"),
            ("ipu.version", "ipu1", "documented", f"{_POPLIBS} tests/poplibs_support/MultiArrayTest.cpp (name of the target)"),
            ("ipu.num_tiles", 1216, "documented", f"{_LOUW}; Burchard et al. 2021, iPUG"),
            ("ipu.clock_hz", 1.6e9, "documented", "Burchard et al. 2021, iPUG"),
            ("ipus_per_machine", 2, "documented", f"{_C2_README}: dual IPU PCIe card"),
            ("ipu.tile.sram_bytes", 256 * KIB, "documented", _LOUW),
            (
                "ipu.tile.executable_bytes",
                128 * KIB,
                "assumed",
                "no figure is published; Mk2 keeps two thirds of a tile for interleaved data, here a half is taken",
            ),
            ("ipu.tile.worker_contexts", 6, "documented", _LOUW),
            (
                "ipu.tile.load_store_bytes_per_cycle",
                24,
                "derived",
                _GC2_LOAD_STORE,
            ),
            ("ipu.tile.copy_bytes_per_cycle", 8, "assumed", "as Mk2, whose load and store are as wide"),
            (
                "ipu.tile.exchange_bytes_per_cycle",
                4,
                "derived",
                f"{_LOUW}: 8 TB/s / 1,216 tiles / 1.6 GHz = 4.1, and {_POPLIBS} lib/popnn, lib/popops plan pooling with 4",
            ),
            ("ipu.tile.stack_bytes", 3_168, "documented", _STACKS),
            ("ipu.tile.reserved_bytes", 0, "assumed", "no figure is published for Mk1"),
            (
                "ipu.macs_per_cycle_half",
                32,
                "assumed",
                "no figure above the one for float partials is published, and Mk1 has as many units for both",
            ),
            (
                "ipu.macs_per_cycle_half_float",
                32,
                "derived",
                "Jia et al. 2019 (arXiv 1912.03413): 124.5 TFLOP/s mixed / 1,216 tiles / 1.6 GHz = 64 FLOP",
            ),
            (
                "ipu.macs_per_cycle_float",
                8,
                "derived",
                "Jia et al. 2019 (arXiv 1912.03413): 31.1 TFLOP/s fp32 / 1,216 tiles / 1.6 GHz = 16 FLOP",
            ),
            ("ipu.macs_per_cycle_float8", 0, "documented", _NO_FLOAT8),
            (
                "ipu.sync_cycles",
                600,
                "assumed",
                _GC2_SYNC,
            ),
            ("ipu.superstep_overhead_cycles", 75, "assumed", f"as Mk2, where it is {_OVERHEAD_FIT}"),
            (
                "link.bytes_per_second",
                _LADDER_BYTES_PER_SECOND,
                "derived",
                f"{_LADDER}; it adds up to the 192 GB/s on a card and 128 GB/s between cards of {_C2_README}",
                0.1,
                _LINK_DOUBT,
            ),
            (
                "link.gateway_bytes_per_second",
                12.5e9,
                "assumed",
                "cards have no gateway; servers of cards are taken to share a network of 100 GbE",
            ),
            (
                "link.ipus_per_rack",
                16,
                "documented",
                "Dell DSS8440 IPU server: 16 IPUs on 8 C2 cards, all joined by IPU-Links",
            ),
            ("link.topology", "ladder", "documented", "Jia et al. 2019 (arXiv 1912.03413): the 16 IPUs of a server form a ladder"),
            ("host.to_ipus_bytes_per_second", 14.55e9, "assumed", _GC2_HOST_LINK),
            ("host.to_host_bytes_per_second", 6.33e9, "assumed", _GC2_HOST_LINK),
            ("host.link_latency_seconds", 10e-6, "assumed", f"as a C600 over PCIe. {_HOST_LATENCY}"),
            (
                "host.streaming_memory_bytes",
                0,
                "assumed",
                "the C2 card product brief (graphcore/legacy_drivers_and_tools c2/docs) names no memory but the IPUs'",
            ),
            ("host.streaming_memory_bytes_per_second", 5.5e9, "assumed", _NO_STREAMING_MEMORY),
            ("host.remote_buffer_bytes_per_second", 5.5e9, "assumed", _NO_STREAMING_MEMORY),
        ),
    }
)
