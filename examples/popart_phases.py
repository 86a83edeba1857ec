"""PopART's execution phases.

A model whose weights are in streaming memory runs phase by phase, on two pairs of emulated IPUs: one pair computes while the other loads
the next phase's weights. Whether that overlaps is a matter of the device's sync pattern.

    python examples/popart_phases.py
"""

# %%
from __future__ import annotations

import numpy as np

from tilestep import popart

REPLICAS, PHASES, ROWS, FEATURES, WIDTH, BATCHES, TILES = 2, 8, 1024, 16, 512, 4, 128
PATTERNS = (popart.SyncPattern.Full, popart.SyncPattern.SinglePipeline, popart.SyncPattern.ReplicaAndLadder)

# %% [markdown]
# ## The model
# Each layer is a phase. Phase n runs on IPU n % 2 of its replica, so with two replicas the even phases are on IPUs A and C, the odd ones on
# B and D.

# %%
rng = np.random.default_rng(0)
shapes = [(FEATURES if phase == 0 else WIDTH, WIDTH) for phase in range(PHASES)]
weights = [(rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32) for shape in shapes]


def model() -> tuple[bytes, str]:
    """(the model, its output: the mean of the absolute values of its last layer)."""
    builder = popart.Builder()
    value = builder.addInputTensor(popart.TensorInfo("FLOAT", [ROWS, FEATURES]), "x")
    for phase, weight in enumerate(weights):
        name = builder.addInitializedInputTensor(weight, f"w{phase}")
        with builder.executionPhase(phase):
            value = builder.aiOnnx.tanh([builder.aiOnnx.matmul([value, name])])
    with builder.executionPhase(PHASES - 1):
        value = builder.aiGraphcore.l1loss([value], 1.0, popart.ReductionType.Mean)
    builder.addOutputTensor(value)
    return builder.getModelProto(), value


# %% [markdown]
# ## The session
# Phases load weights that are off the chip and are no constants. A quarter of the tiles load beside compute.


# %%
def session(pattern: popart.SyncPattern) -> tuple[popart.InferenceSession, str]:
    """(a session on four IPUs, the model's output)."""
    proto, output = model()
    options = popart.SessionOptions()
    options.enableReplicatedGraphs = True
    options.replicatedGraphCount = REPLICAS
    options.virtualGraphMode = popart.VirtualGraphMode.ExecutionPhases
    options.executionPhaseSettings.phases = PHASES
    options.executionPhaseSettings.stages = 2
    options.constantWeights = False
    options.numIOTiles = TILES // 4
    location = popart.TensorLocation(popart.TensorStorage.OffChip)
    location.loadTileSet = location.storageTileSet = popart.TileSet.IO
    options.weightTensorLocationSettings.location = location
    options.instrumentWithHardwareCycleCounter = True
    device = popart.DeviceManager().acquireAvailableDevice(2 * REPLICAS, TILES, pattern)
    flow = popart.DataFlow(BATCHES, {output: popart.AnchorReturnType("Final")})
    made = popart.InferenceSession(proto, flow, device, userOptions=options, name=str(pattern))
    made.prepareDevice()
    made.weightsFromHost()
    device.detach()
    return made, output


x = rng.normal(size=(BATCHES, REPLICAS, ROWS, FEATURES)).astype(np.float32)
cycles: dict[popart.SyncPattern, int] = {}
for pattern in PATTERNS:
    made, output = session(pattern)
    anchors = made.initAnchorArrays()
    made.run(popart.PyStepIO({"x": x}, anchors))
    expected = x[-1]
    for weight in weights:
        expected = np.tanh(expected @ weight)
    error = np.abs(anchors[output] - np.abs(expected).mean(axis=(1, 2))).max()
    cycles[pattern] = made.getCycleCount()
    print(f"{pattern!s:17} {cycles[pattern]:12,} cycles, values as NumPy's to {error:.3f}")

# %% [markdown]
# ## What the pattern decides
# Under `full` all IPUs wait when one accesses streaming memory, so nothing overlaps.

# %%
full = cycles[popart.SyncPattern.Full]
for pattern in PATTERNS[1:]:
    print(f"{pattern!s:17} {full / cycles[pattern]:.2f} times as fast as full")
