"""A PopART pipeline.

Train a classifier of handwritten digits as a PopART program, on four emulated IPUs: a model that is annotated with stages, a pipeline that
accumulates gradients, and one that does not, whose weights are stale.

    python examples/popart_pipeline.py
"""

# %%
from __future__ import annotations

import numpy as np
import onnx

from datasets import NUM_CLASSES, load_digits
from tilestep import popart

STAGES, ROWS, WIDTH, EPOCHS = 4, 16, 128, 6
DEPTH = 2 * STAGES - 1  # the fewest microbatches that a pipeline takes in training

digits = load_digits()

# %% [markdown]
# ## The model
# PopART has two ways to say on which IPU and in which stage an operator is: a context manager, and a call with the operator's output. They
# give the same attributes.


# %%
def weights(rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """Random numbers for a product with them."""
    return (rng.normal(size=(rows, columns)) * np.sqrt(2 / rows)).astype(np.float32)


def with_contexts() -> tuple[bytes, str]:
    """(the model, its loss). All that is made inside of a context is in its stage."""
    builder, rng = popart.Builder(), np.random.default_rng(0)
    value = builder.addInputTensor(popart.TensorInfo("FLOAT", [ROWS, 64]), "pixels")
    label = builder.addInputTensor(popart.TensorInfo("INT32", [ROWS]), "label")
    for stage in range(STAGES):
        last = stage == STAGES - 1
        shape = (WIDTH if stage else 64, NUM_CLASSES if last else WIDTH)
        weight = builder.addInitializedInputTensor(weights(*shape, rng), f"w{stage}")
        with builder.virtualGraph(stage), builder.pipelineStage(stage):
            value = builder.aiOnnx.matmul([value, weight])
            value = builder.aiOnnx.softmax([value]) if last else builder.aiOnnx.relu([value])
            if last:
                value = builder.aiGraphcore.nllloss([value, label])
    return builder.getModelProto(), value


def with_calls() -> tuple[bytes, str]:
    """The same. Each operator is placed once it is there."""
    builder, rng = popart.Builder(), np.random.default_rng(0)
    value = builder.addInputTensor(popart.TensorInfo("FLOAT", [ROWS, 64]), "pixels")
    label = builder.addInputTensor(popart.TensorInfo("INT32", [ROWS]), "label")

    def placed(output: str, stage: int) -> str:
        builder.virtualGraph(output, stage)
        builder.pipelineStage(output, stage)
        return output

    for stage in range(STAGES):
        last = stage == STAGES - 1
        shape = (WIDTH if stage else 64, NUM_CLASSES if last else WIDTH)
        weight = builder.addInitializedInputTensor(weights(*shape, rng), f"w{stage}")
        value = placed(builder.aiOnnx.matmul([value, weight]), stage)
        value = placed(builder.aiOnnx.softmax([value]) if last else builder.aiOnnx.relu([value]), stage)
    value = placed(builder.aiGraphcore.nllloss([value, label]), STAGES - 1)
    return builder.getModelProto(), value


def places(model: bytes) -> list[tuple[str, dict[str, int]]]:
    """Each operator, with what its attributes say of its place."""
    nodes = onnx.ModelProto.FromString(model).graph.node
    names = ("__ipu_number", "__pipeline_stage")
    return [
        (node.op_type, {each.name: each.i for each in node.attribute if each.name in names}) for node in nodes
    ]


proto, loss = with_contexts()
print("the same operators in the same places:", places(proto) == places(with_calls()[0]))
for operator, place in places(proto):
    print(f"  {operator:8} {place}")

# %% [markdown]
# ## Where to cut it
# PopART's guide says to profile the model to choose a partitioning. The operators' emulated cycles tell what these stages are worth.

# %%
device = popart.DeviceManager().createIpuModelDevice({"numIPUs": STAGES, "tilesPerIPU": 64})
print(popart.propose_stages(proto, STAGES, device, loss))

# %% [markdown]
# ## The sessions
# With accumulation a pipeline is flushed before each update, and gives what the model gives without stages. Without it each microbatch
# updates the weights at once, and reads stale ones: in stage s of L + 1 those after max(0, m - 2 (L - s)) updates.
#
# Here both get the same pictures in the same order. The mean over accumulated gradients has a learning rate that is larger by as much as
# there are fewer updates.


# %%
def session(rate: float, *, accumulation: int, microbatches: int) -> popart.TrainingSession:
    """A pipeline of the model, ready to run so many microbatches at a time."""
    options = popart.SessionOptions()
    options.virtualGraphMode = popart.VirtualGraphMode.Manual
    options.enablePipelining = True
    options.enableGradientAccumulation = accumulation > 1
    options.accumulationFactor = accumulation
    options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
    options.instrumentWithHardwareCycleCounter = True
    options.engineOptions = {
        "autoReport.executionProfileProgramRunCount": "100"
    }  # events that a recording keeps
    made = popart.TrainingSession(
        fnModel=proto,
        dataFlow=popart.DataFlow(microbatches // accumulation, {loss: popart.AnchorReturnType("All")}),
        loss=loss,
        optimizer=popart.SGD({"defaultLearningRate": (rate, True)}),
        deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": STAGES, "tilesPerIPU": 64}),
        userOptions=options,
        name=f"accumulates {accumulation}",
    )
    made.prepareDevice()
    made.weightsFromHost()
    return made


BATCHES = len(digits.train) // ROWS // DEPTH * DEPTH
rows = BATCHES * ROWS


def trained(made: popart.TrainingSession) -> np.ndarray:
    """The losses of all microbatches, one row for each epoch."""
    anchors, rng, losses = made.initAnchorArrays(), np.random.default_rng(1), []
    for _ in range(EPOCHS):
        order = rng.permutation(len(digits.train))[:rows]
        inputs = {"pixels": digits.train.images[order], "label": digits.train.labels[order]}
        made.run(popart.PyStepIO(inputs, anchors))
        losses.append(anchors[loss].ravel().copy())
    return np.array(losses)


RATE = 0.02
accumulating = session(RATE * DEPTH, accumulation=DEPTH, microbatches=BATCHES)
stale = session(RATE, accumulation=1, microbatches=BATCHES)
losses = {"accumulated": trained(accumulating), "stale": trained(stale)}
for name, found in losses.items():
    print(f"{name:11}", " ".join(f"{value:.3f}" for value in found.mean(axis=1)), "mean loss of each epoch")

# %% [markdown]
# ## Both losses
# `a` is the accumulated pipeline, `s` the stale one, `*` both. Each column is a tenth of an epoch.


# %%
def plotted(curves: dict[str, np.ndarray], *, height: int = 14) -> str:
    """Curves as text, named by their first letters. Args: curves: values of equally many columns."""
    top = max(values.max() for values in curves.values())
    rows = [[" "] * len(values) for _ in range(height) for values in [next(iter(curves.values()))]]
    for name, values in curves.items():
        for column, value in enumerate(values):
            row = rows[min(height - 1, int((1 - value / top) * height))]
            row[column] = name[0] if row[column] == " " else "*"
    return "\n".join(
        f"{top * (1 - (row + 0.5) / height):5.2f} |{''.join(text)}" for row, text in enumerate(rows)
    )


columns = EPOCHS * 10
each = EPOCHS * BATCHES // columns
print(
    plotted(
        {
            name: found.ravel()[: columns * each].reshape(columns, each).mean(axis=1)
            for name, found in losses.items()
        }
    )
)

# %% [markdown]
# ## What the IPUs did
# Two short runs, drawn from the emulator's trace. A row is an IPU, `f` a forward pass, `b` a backward pass, `u` an update, and `*` forward
# and backward of the last stage. The first pipeline is flushed after seven microbatches, before its update. The other runs on.


# %%
def drawn(made: popart.TrainingSession, *, width: int = 100) -> str:
    """A session's second run: in the first, programs are loaded."""
    anchors, count = made.initAnchorArrays(), made.accumulationFactor * made.dataFlow.batchesPerStep()
    inputs = {"pixels": digits.train.images[: count * ROWS], "label": digits.train.labels[: count * ROWS]}
    for _ in range(2):
        made.run(popart.PyStepIO(inputs, anchors))
    execution = made.getReport().execution
    letters = {"forward": "f", "backward": "b", "forward and backward": "*", "update": "u"}
    rows = []
    for ipu in range(STAGES):
        runs = [
            (letters.get(each.run.name.removeprefix(f"stage {ipu} ")), each)
            for each in execution.runs_on(ipu)
        ]
        tasks = [(letter, each) for letter, each in runs if letter]
        rows.append(tasks[len(tasks) // 2 :])
    begin = min(each.cycles_from for row in rows for _, each in row)
    step = (max(each.cycles_to for row in rows for _, each in row) - begin) / width
    lines = [["."] * (width + 1) for _ in rows]
    for line, row in zip(lines, rows, strict=True):
        for letter, each in row:
            for column in range(
                int((each.cycles_from - begin) / step), int((each.cycles_to - begin) / step) + 1
            ):
                line[column] = letter
    return "\n".join(f"IPU {ipu} |{''.join(line)}" for ipu, line in enumerate(lines))


print("accumulated, two updates")
print(drawn(session(RATE, accumulation=DEPTH, microbatches=2 * DEPTH)))
print("stale, as many microbatches")
print(drawn(session(RATE, accumulation=1, microbatches=2 * DEPTH)))

# %% [markdown]
# ## What it takes
# Cycles of an epoch, for the same pictures.

# %%
for name, made in (("accumulated", accumulating), ("stale", stale)):
    print(f"{name:11} {made.getCycleCount():10,} cycles")
