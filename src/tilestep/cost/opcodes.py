"""HLO opcodes by what a lowering has to do with them."""

from __future__ import annotations

from tilestep.cost.rates import BUNDLES

# May share a pass with others of the same size.
ELEMENTWISE = frozenset(BUNDLES)

# Names, tuples, markers, and facts known when a program is made. Tensors lie over the tiles in row-major order, which a
# reshape keeps, so it is one more name for the same bytes.
FREE = frozenset(
    {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "reshape", "after-all", "add-dependency", "opt-barrier", "domain",
     "partition-id", "replica-id", "get-dimension-size", "set-dimension-size", "copy-done",
     "custom-call:Sharding", "custom-call:SPMDFullToShardShape", "custom-call:SPMDShardToFullShape", "custom-call:LayoutConstraint",
     "custom-call:annotate_device_placement", "custom-call:AllocateBuffer", "custom-call:dce_sink_cpu_ffi",
     "custom-call:xla.sdy.FuncResultSharding",
     "custom-call:xla.sdy.LocalToGlobalShape", "custom-call:xla.sdy.GlobalToLocalShape"}
)  # fmt: skip

# Planned by a search: `plan.matmul.plan_dot` and `plan.conv.plan_convolution`.
PLANNED = frozenset({"dot", "ragged-dot", "scaled-dot", "convolution"})

# Call other computations; the lowering walks into those.
CONTROL_FLOW = frozenset({"call", "while", "conditional", "fusion", "async-start", "async-update", "async-done", "custom-call"})

# Between IPUs: time on the links is the simulator's, arithmetic is `collective_compute_cycles`.
COLLECTIVES = frozenset(
    {"all-reduce", "all-reduce-start", "all-reduce-done", "all-gather", "all-gather-start", "all-gather-done", "reduce-scatter",
     "all-to-all", "ragged-all-to-all", "collective-permute", "collective-permute-start", "collective-permute-done", "collective-broadcast"}
)  # fmt: skip

# Between IPU and host, or another program.
HOST_TRANSFERS = frozenset({"infeed", "outfeed", "send", "send-done", "recv", "recv-done"})
