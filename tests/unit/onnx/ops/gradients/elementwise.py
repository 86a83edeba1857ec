"""Cases of operators that work element by element, of reductions, and of what normalises."""

from typing import Final

import numpy as np
from onnx import TensorProto

from tests.unit.onnx.ops.gradients.slopes import ML, Case, case, uniform

X = uniform(2, 3, 4)
Y = uniform(3, 1, seed=1)
POSITIVE = uniform(2, 3, 4, seed=2, low=0.2, high=1.5)
WIDE = 4 * X  # beyond where activations bend
ABOVE_1 = POSITIVE + 1
IMAGE = uniform(2, 4, 3, 3, seed=3)
SCALE, BIAS = uniform(4, seed=4), uniform(4, seed=5)
ZEROS = np.zeros((2, 3, 4))
AXIS: Final = np.array([1])
TARGET = np.array([[0, 2, 1, 3], [2, 2, 0, 1]])

SMOOTH: list[Case] = [
    *(
        case(name, X)
        for name in ("Acos", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Erf", "Exp", "Neg", "Reciprocal", "Sin", "Sinh")
    ),
    *(case(name, X) for name in ("Abs", "Tan", "Tanh", "Sigmoid", "Softplus", "Softsign", "Identity", "Gelu", "Mish")),
    case("Acosh", ABOVE_1),
    case("Log", POSITIVE),
    case("Sqrt", POSITIVE),
    *(case(name, WIDE) for name in ("Relu", "Elu", "Selu", "Celu", "LeakyRelu", "HardSigmoid", "HardSwish", "Swish")),
    case("Gelu", X, approximate="tanh"),
    case("Celu", WIDE, alpha=0.5),
    case("ThresholdedRelu", WIDE, alpha=0.7),
    case("Shrink", WIDE, lambd=0.7, bias=0.3),
    case("PRelu", X, Y),
    case("PRelu", X, uniform(3, seed=1), version=6),
    case("Add", X, Y),
    case("Add", X, uniform(3, seed=1), version=6, axis=1, broadcast=1),
    case("Sub", X, Y),
    case("Mul", X, Y),
    case("Div", X, Y),
    case("Pow", POSITIVE, Y),
    case("Pow", X, np.array(2.0), fixed=(1,)),
    case("Pow", X, np.array(3)),
    case("Mod", WIDE, Y, fmod=1),
    *(case(name, X, Y, X[::-1]) for name in ("Max", "Min", "Mean", "Sum")),
    *(case(name, X, X[::-1], version=6) for name in ("Max", "Mean", "Sum")),
    case("Clip", WIDE, np.array(-0.8), np.array(1.2)),
    case("Clip", WIDE, version=6, min=-0.8, max=1.2),
    case("Where", X > 0.2, X, Y),
    case("Cast", X, to=TensorProto.DOUBLE),
    case("CastLike", X, X, fixed=(1,)),
    case("DequantizeLinear", np.arange(12, dtype=np.int8).reshape(3, 4), SCALE[:3].astype(np.float32), np.arange(3, dtype=np.int8), axis=0),
    case("DynamicQuantizeLinear", X, outputs=3),
    *(case(name, X, AXIS, keepdims=0) for name in ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd")),
    *(case(name, X, AXIS, keepdims=0) for name in ("ReduceSum", "ReduceSumSquare", "ReduceLogSumExp")),
    case("ReduceLogSum", POSITIVE, AXIS),
    case("ReduceL2", X, version=13, axes=[0, 2]),
    case("ReduceSum", X, version=11, axes=[0]),
    case("CumSum", X, np.array(1), exclusive=1, reverse=1),
    case("CumProd", X, np.array(2)),
    case("Softmax", X, axis=1),
    case("Softmax", X, version=11, axis=1),
    case("LogSoftmax", X, axis=1),
    case("LogSoftmax", X, version=11, axis=1),
    case("NegativeLogLikelihoodLoss", X.swapaxes(1, 2), TARGET[:, :3], POSITIVE[0, 0], ignore_index=0),
    case("SoftmaxCrossEntropyLoss", X.swapaxes(1, 2), TARGET[:, :3], POSITIVE[0, 0], outputs=2),
    case("BatchNormalization", IMAGE, SCALE, BIAS, SCALE, np.abs(BIAS)),
    case("BatchNormalization", IMAGE, SCALE, BIAS, SCALE, np.abs(BIAS), outputs=3, training_mode=1),
    case("BatchNormalization", IMAGE, SCALE, BIAS, SCALE, np.abs(BIAS), version=9),
    case("InstanceNormalization", IMAGE, SCALE, BIAS),
    case("GroupNormalization", IMAGE, SCALE, BIAS, num_groups=2, stash_type=11),
    case("GroupNormalization", IMAGE, SCALE[:2], BIAS[:2], version=18, num_groups=2),
    case("LayerNormalization", X, SCALE, BIAS, outputs=3, stash_type=11),
    case("RMSNormalization", X, SCALE, stash_type=11),
    case("MeanVarianceNormalization", IMAGE),
    case("SimplifiedLayerNormalization", X, SCALE, version=1, outputs=2),
    case("LpNormalization", X, axis=1),
    case("LpNormalization", X, axis=1, p=1),
    case("LRN", IMAGE, size=3, alpha=0.5),
    case("Scaler", X[0], domain=ML, offset=[0.5], scale=[1.0, 2.0, 3.0, 4.0]),
    *(case("Normalizer", X[0], domain=ML, norm=norm) for norm in ("MAX", "L1", "L2")),
]

TIED = np.array([[1.0, 1.0, -1.0, 1.0]])
HIDDEN = np.array([[0.5, -np.inf, -np.inf]])
KINKS: list[Case] = [
    *(case(name, ZEROS[0], at="kink") for name in ("Abs", "Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Softsign", "Swish", "Mish", "Gelu")),
    case("PRelu", ZEROS[0], SCALE, at="kink"),
    case("HardSigmoid", np.array([-2.5, 2.5]), at="kink"),
    case("HardSwish", np.array([-3.0, 3.0]), at="kink"),
    case("Clip", np.array([-1.0, 1.0, 0.0]), np.array(-1.0), np.array(1.0), fixed=(1, 2), at="kink"),
    case("Max", TIED, TIED, at="kink"),
    case("Min", TIED, TIED, TIED, at="kink"),
    case("Pow", ZEROS[0], np.array(2.0), fixed=(1,), at="kink"),
    case("Pow", np.array([0.0, -0.5]), np.array([2.0, 3.0]), at="jump"),
    *(case(name, TIED, AXIS, at="kink") for name in ("ReduceMax", "ReduceMin")),
    *(case(name, ZEROS[0], AXIS, at="kink") for name in ("ReduceL1", "ReduceL2", "ReduceProd", "ReduceSumSquare", "ReduceLogSumExp")),
    case("CumProd", ZEROS[0], np.array(1), at="kink"),
    case("LpNormalization", ZEROS[0, :1, :1], axis=1, p=2, at="jump"),
    case("MeanVarianceNormalization", np.ones((2, 1, 1, 1)), axes=[1, 2, 3], at="kink"),
    case("LRN", np.zeros((1, 2, 2, 2)), size=3, at="kink"),
    case("InstanceNormalization", np.ones((1, 4, 1, 1)), SCALE, BIAS, at="kink"),
    case("LayerNormalization", np.ones((2, 1)), SCALE[:1], BIAS[:1], stash_type=11, at="kink"),
    case("Softmax", HIDDEN, at="kink"),
    case("Where", np.array([True, False]), np.array([1.0, np.inf]), np.array([np.inf, 2.0]), at="kink"),
    *(case("Normalizer", np.zeros((1, 2)), domain=ML, norm=norm, at="jump") for norm in ("MAX", "L1", "L2")),
]
