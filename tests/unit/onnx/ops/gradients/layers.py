"""Cases of layers: products, convolutions, pools, attention, recurrences, samplers, spectra, models of ai.onnx.ml."""

import numpy as np

from tests.unit.onnx.ops.gradients.slopes import ML, PREVIEW, Case, case, uniform

A, B = uniform(2, 3, 4), uniform(2, 4, 3, seed=1)
IMAGE = uniform(1, 2, 5, 5, seed=2)
WEIGHTS, BIAS = uniform(2, 2, 3, 3, seed=3), uniform(2, seed=4)
HEADS = uniform(1, 2, 3, 4, seed=5)
KEYS, VALUES = uniform(1, 2, 3, 4, seed=6), uniform(1, 2, 3, 4, seed=7)
MASK = uniform(3, 3, seed=8)
SEQUENCE = uniform(3, 2, 2, seed=9)  # [steps, batch, features]
HIDDEN = 3
GRID = uniform(1, 3, 3, 2, seed=10, low=-0.83, high=0.83)
REGIONS = np.array([[0.3, 0.4, 2.8, 3.1], [1.1, 0.2, 3.3, 3.7]])
ROWS, VECTORS = uniform(3, 2, seed=11), [0.5, -0.3, 0.2, 0.9, -0.4, -0.7]
GATE = uniform(1, 3, 8, seed=12)


def recurrent(name: str, gates: int, state: int, **attributes: object) -> Case:
    """An operator with all its inputs, forwards and backwards. Args: gates: of its weights; state: how many arrays are its state."""
    weights = [uniform(2, gates * HIDDEN, width, seed=20 + width) for width in (2, HIDDEN)]
    states = [uniform(2, 2, HIDDEN, seed=30 + number) for number in range(state)]
    peepholes = [uniform(2, 3 * HIDDEN, seed=40)] if state == 2 else []
    bias = uniform(2, 2 * gates * HIDDEN, seed=41)
    inputs = [SEQUENCE, *weights, bias, np.array([3, 2], np.int32), *states, *peepholes]
    return case(name, *inputs, outputs=1 + state, direction="bidirectional", hidden_size=HIDDEN, **attributes)


SMOOTH: list[Case] = [
    case("MatMul", A, B),
    case("Gemm", A[0], B[0], BIAS[:1], alpha=0.5, beta=2.0, transA=1, transB=1),
    case("Det", uniform(2, 3, 3)),
    case("Conv", IMAGE, WEIGHTS, BIAS, pads=[1, 0, 1, 1], strides=[2, 1], dilations=[1, 2]),
    case("Conv", IMAGE, WEIGHTS[:, :1], BIAS, group=2),
    case("ConvTranspose", IMAGE, WEIGHTS, BIAS, strides=[2, 1], output_padding=[1, 0]),
    case("DeformConv", IMAGE, WEIGHTS[:, :, :2, :2], uniform(1, 8, 4, 4, seed=13) / 4, BIAS, uniform(1, 4, 4, 4, seed=14)),
    case("CausalConvWithState", uniform(1, 2, 5), uniform(2, 1, 3, seed=1), BIAS, uniform(1, 2, 2, seed=2), outputs=2),
    case("Col2Im", uniform(1, 8, 4), np.array([3, 3]), np.array([2, 2])),
    case("AveragePool", IMAGE, kernel_shape=[2, 3], pads=[1, 1, 0, 1]),
    case("MaxPool", IMAGE, kernel_shape=[2, 3], pads=[1, 1, 0, 1], strides=[2, 1]),
    case("MaxPool", IMAGE, kernel_shape=[2, 2], outputs=2),
    case("LpPool", IMAGE, kernel_shape=[2, 2], p=3),
    case("GlobalAveragePool", IMAGE),
    case("GlobalMaxPool", IMAGE),
    case("GlobalLpPool", IMAGE),
    case(
        "MaxUnpool", IMAGE[:, :, :2, :2], np.array([0, 3, 9, 15, 18, 20, 27, 30]).reshape(1, 2, 2, 2), kernel_shape=[2, 2], strides=[2, 2]
    ),
    case("MaxRoiPool", IMAGE, np.array([[0, 0, 0, 3, 3]], np.float32), fixed=(1,), pooled_shape=[2, 2]),
    case("RoiAlign", IMAGE, REGIONS, np.array([0, 0]), output_height=2, output_width=2, sampling_ratio=2),
    case("RoiAlign", IMAGE, REGIONS, np.array([0, 0]), output_height=2, output_width=2, mode="max", sampling_ratio=2, fixed=(1,)),
    case("RoiAlign", IMAGE, REGIONS, np.array([0, 0]), version=10, output_height=2, output_width=2, sampling_ratio=2),
    *(
        case("GridSample", IMAGE, GRID, mode=mode, padding_mode=padding)
        for mode, padding in (("linear", "zeros"), ("cubic", "border"), ("linear", "reflection"))
    ),
    case("AffineGrid", uniform(1, 2, 3), np.array([1, 1, 2, 3])),
    case("Dropout", A),
    case("Dropout", A, np.array(0.25), np.array(True), fixed=(1,)),
    case("Dropout", A, version=7),
    case("Attention", HEADS, KEYS, VALUES, MASK, softcap=2.0, outputs=4, softmax_precision=11),
    case("Attention", HEADS, KEYS, VALUES, is_causal=1, softmax_precision=11),
    case("FlexAttention", HEADS, KEYS, VALUES, domain=PREVIEW),
    case("LinearAttention", *(uniform(1, 3, 8, seed=seed) for seed in (1, 2, 3)), q_num_heads=2, kv_num_heads=2, update_rule="linear"),
    case("RotaryEmbedding", HEADS, uniform(1, 3, 2), uniform(1, 3, 2, seed=1)),
    case("SwiGLU", GATE, GATE[..., ::-1]),
    recurrent("RNN", 1, 1, activations=["Tanh", "Sigmoid"]),
    recurrent("GRU", 3, 1, linear_before_reset=1),
    recurrent("GRU", 3, 1),
    recurrent("LSTM", 4, 2),
    case("DFT", uniform(1, 5, 2), None, np.array(1)),
    case("DFT", uniform(1, 5, 1), None, np.array(1), onesided=1),
    case("DFT", uniform(1, 5, 2), version=17, inverse=1),
    case("STFT", uniform(1, 8, 1), np.array(2), uniform(4, seed=1), np.array(4)),
    case("LinearRegressor", ROWS, domain=ML, coefficients=[0.5, -1.0], intercepts=[0.3], targets=1),
    *(
        case("LinearClassifier", ROWS, domain=ML, outputs=2, classlabels_ints=[0, 1, 2], coefficients=VECTORS, post_transform=transform)
        for transform in ("NONE", "SOFTMAX", "LOGISTIC")
    ),
    *(
        case(
            "SVMRegressor",
            ROWS,
            domain=ML,
            kernel_type=kind,
            kernel_params=[0.5, 0.2, 2.0],
            support_vectors=VECTORS,
            n_supports=3,
            coefficients=[0.5, -0.2, 0.7],
            rho=[0.1],
        )
        for kind in ("LINEAR", "POLY", "RBF", "SIGMOID")
    ),
    case(
        "SVMClassifier",
        ROWS,
        domain=ML,
        outputs=2,
        kernel_type="RBF",
        kernel_params=[0.5, 0.2, 2.0],
        support_vectors=VECTORS,
        vectors_per_class=[2, 1],
        coefficients=[0.5, 0.2, -0.7],
        classlabels_ints=[0, 1],
        rho=[0.1],
        prob_a=[-0.5],
        prob_b=[0.1],
    ),
]

SEEN = np.array([[True, False, False], [False, False, False], [True, True, True]])
KINKS: list[Case] = [
    case("MaxPool", np.ones((1, 1, 3, 3)), kernel_shape=[2, 2], at="kink"),
    case("GlobalMaxPool", np.ones((1, 1, 2, 2)), at="kink"),
    case("LpPool", np.zeros((1, 1, 2, 2)), kernel_shape=[2, 2], p=2, at="kink"),
    case("GlobalLpPool", np.zeros((1, 1, 2, 2)), p=2, at="kink"),
    case("GlobalLpPool", np.zeros((1, 1, 2, 2)), p=3, at="kink"),
    case("Det", np.diag([1.0, 1.0, 0.0]), at="kink"),
    case("Attention", HEADS, KEYS, VALUES, SEEN, softmax_precision=11, at="kink"),
    case("RMSNormalization", np.zeros((2, 3)), uniform(3), stash_type=11, at="kink"),
    case("GridSample", IMAGE, np.full((1, 1, 1, 2), 2.0), mode="linear", at="kink"),
    case(
        "SVMRegressor",
        np.zeros((1, 2)),
        domain=ML,
        kernel_type="RBF",
        kernel_params=[0.5, 0.0, 0.0],
        support_vectors=[0.0, 0.0],
        n_supports=1,
        coefficients=[0.5],
        rho=[0.1],
        at="kink",
    ),
]
