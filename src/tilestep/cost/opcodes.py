"""HLO opcodes in groups that a lowering treats alike."""

from tilestep.cost.elementwise.rates import BUNDLES

ELEMENTWISE = frozenset(BUNDLES)
"""Opcodes that may share a fusion with others of the same size."""

FREE = frozenset(
    {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "reshape", "after-all", "add-dependency", "opt-barrier", "domain",
     "partition-id", "replica-id", "get-dimension-size", "set-dimension-size", "copy-done",
     "custom-call:Sharding", "custom-call:SPMDFullToShardShape", "custom-call:SPMDShardToFullShape", "custom-call:LayoutConstraint",
     "custom-call:annotate_device_placement", "custom-call:AllocateBuffer", "custom-call:dce_sink_cpu_ffi",
     "custom-call:xla.sdy.FuncResultSharding",
     "custom-call:xla.sdy.LocalToGlobalShape", "custom-call:xla.sdy.GlobalToLocalShape"}
)  # fmt: skip
"""Opcodes that cost nothing: names, tuples, markers, and facts known at compile time.

Tensors are laid out over the tiles in row-major order. A reshape keeps this order, so it is only another name.
"""

PLANNED = frozenset({"dot", "ragged-dot", "scaled-dot", "convolution"})
"""Opcodes that a search plans: `plan_dot` and `plan_convolution` of `plan.products`."""

CONTROL_FLOW = frozenset({"call", "while", "conditional", "fusion", "async-start", "async-update", "async-done", "custom-call"})
"""Opcodes that call other computations, which are lowered in turn."""

COLLECTIVES = frozenset(
    {"all-reduce", "all-reduce-start", "all-reduce-done", "all-gather", "all-gather-start", "all-gather-done", "reduce-scatter",
     "all-to-all", "ragged-all-to-all", "collective-permute", "collective-permute-start", "collective-permute-done", "collective-broadcast"}
)  # fmt: skip
"""Opcodes of exchanges between IPUs. The simulator prices their links, `collective_compute_cycles` their arithmetic."""

HOST_TRANSFERS = frozenset({"infeed", "outfeed", "send", "send-done", "recv", "recv-done"})
"""Opcodes of transfers between IPU and host, or another program."""
