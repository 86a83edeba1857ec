"""A small pipeline of PopART: two stages, four microbatches, one update."""

import numpy as np
import popart

ROWS, WIDTH, MICROBATCHES = 4, 16, 4

builder, rng = popart.Builder(), np.random.default_rng(0)
value = builder.addInputTensor(popart.TensorInfo("FLOAT", [ROWS, WIDTH]), "x")
for stage in range(2):
    weight = builder.addInitializedInputTensor(rng.normal(size=(WIDTH, WIDTH)).astype(np.float32), f"w{stage}")
    with builder.virtualGraph(stage), builder.pipelineStage(stage):
        value = builder.aiOnnx.relu([builder.aiOnnx.matmul([value, weight])])
        if stage:
            value = builder.aiGraphcore.l1loss([value], 0.1)

options = popart.SessionOptions()
options.virtualGraphMode = popart.VirtualGraphMode.Manual
options.enablePipelining = options.enableGradientAccumulation = True
options.accumulationFactor = MICROBATCHES
options.engineOptions = {"autoReport.executionProfileProgramRunCount": "100"}
session = popart.TrainingSession(
    fnModel=builder.getModelProto(),
    dataFlow=popart.DataFlow(1, [value]),
    loss=value,
    optimizer=popart.ConstSGD(0.1),
    deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": 2, "tilesPerIPU": 16}),
    userOptions=options,
    name="small",
)
session.prepareDevice()
session.weightsFromHost()
session.run(popart.PyStepIO({"x": rng.normal(size=(MICROBATCHES, ROWS, WIDTH)).astype(np.float32)}, session.initAnchorArrays()))
