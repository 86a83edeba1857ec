"""The operators of ai.graphcore, version 1: parameters, numbers of inputs and outputs, and the attributes that they write."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from tilestep.popart.builder.graph.model import AttributeValue
from tilestep.popart.builder.opsets.signatures import (
    BOOL,
    DEBUG_CONTEXT,
    FLOAT,
    IDS,
    INT,
    INTS,
    REQUIRED,
    STR,
    ArgumentKind,
    Mismatch,
    SignatureParameter,
    instance_of,
    member_number,
    optional,
)
from tilestep.popart.enums import DataType, InitType, ReductionType, ScatterReduction, TensorRemapType
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.tensors import data_type_of, onnx_number

Attributes = dict[str, AttributeValue]
DEBUG_NAMES: Final = frozenset({"debugContext", "debug_context", "debugPrefix"})
_REDUCTIONS: Final = {ReductionType.Sum: "Sum", ReductionType.Mean: "Mean", ReductionType.NoReduction: "None"}
_SCATTERS: Final = {
    ScatterReduction.Sum: "sum",
    ScatterReduction.Max: "max",
    ScatterReduction.Min: "min",
    ScatterReduction.Mul: "mul",
    ScatterReduction.NoReduction: "none",
}


def as_given(values: Mapping[str, Any]) -> Attributes:
    """Parameters as they are, but None and the debug context."""
    return {name: value for name, value in values.items() if value is not None and name not in DEBUG_NAMES}


def with_reduction(values: Mapping[str, Any]) -> Attributes:
    """Parameters as they are, with the reduction as a text."""
    return {**as_given(values), "reduction": _REDUCTIONS[values["reduction"]]}


def ctc_loss(values: Mapping[str, Any]) -> Attributes:
    """The type of the result as ONNX numbers it; 0 for that of the input."""
    return {**with_reduction(values), "outDataType": onnx_number(data_type_of(values["outDataType"]))}


def scatter(values: Mapping[str, Any]) -> Attributes:
    """One group unless it is said, and the reduction as a text."""
    return {"group_size": 1, **values, "reduction": _SCATTERS[values["reduction"]]}


def batch_normalization(values: Mapping[str, Any]) -> Attributes:
    """Epsilon and momentum only where they are not usual ones."""
    differing: Attributes = {name: values[name] for name, usual in (("epsilon", 1e-05), ("momentum", 0.9)) if values[name] != usual}
    return {**differing, "unbiased_variance": 0}


def group_normalization(values: Mapping[str, Any]) -> Attributes:
    """Epsilon only where it is not the usual one."""
    float32_epsilon = 2.0**-23  # differences below it are not written, as in the original
    differing: Attributes = {"epsilon": values["epsilon"]} if abs(values["epsilon"] - 1e-05) > float32_epsilon else {}
    return {**differing, "num_groups": values["num_groups"]}


def lstm(values: Mapping[str, Any]) -> Attributes:
    """Under the name that the operator has for it."""
    return {"output_full_sequence": values["outputFullSequence"]}


def depth_to_space(values: Mapping[str, Any]) -> Attributes:
    """The mode only where it is not the usual one."""
    return {"blocksize": values["blocksize"], **({} if values["mode"] == "DCR" else {"mode": values["mode"]})}


def subsample(values: Mapping[str, Any]) -> Attributes:
    """Strides. Raises: popart_exception for one of 0."""
    if 0 in values["strides"]:
        raise popart_exception(f"Strides invalid. 0 stride at index {values['strides'].index(0)}")
    return {"strides": values["strides"]}


def print_tensor(values: Mapping[str, Any]) -> Attributes:
    """Letters as their numbers."""
    letters = {name: ord(values[name]) for name in ("separator", "openBracket", "closeBracket")}
    return {**as_given(values), **letters}


def slice(values: Mapping[str, Any]) -> Attributes:
    """Axes only where some are named."""
    return {name: values[name] for name in ("axes", "ends", "starts") if name != "axes" or values["axes"]}


DOMAIN: Final = "ai.graphcore"


@dataclass(frozen=True)
class GraphcoreOperator:
    """An operator's method.

    Attributes:
        name: of the method.
        op_type: as nodes have it.
        inputs: how many, or the least and the largest number.
        parameters: all but `args`, `num_outputs` and the debug context.
        doc: what it computes, with the inputs in the order of `args`.
        outputs: how many.
        attributes: values of `parameters` -> the node's attributes.
        args: the default of `args`.
        args_kind: how `args` is given.
        varies: whether the caller says the number of outputs.
    """

    name: str
    op_type: str
    inputs: int | tuple[int, int]
    parameters: tuple[SignatureParameter, ...] = ()
    doc: str = ""
    _: KW_ONLY
    outputs: int = 1
    attributes: Callable[[Mapping[str, Any]], Attributes] = as_given
    args: Any = REQUIRED
    args_kind: ArgumentKind = IDS
    varies: bool = False

    def all_parameters(self) -> tuple[SignatureParameter, ...]:
        """Those of the method. The debug context is the last one, but for printtensor."""
        count = (SignatureParameter("num_outputs", INT),) if self.varies else ()
        named = any(parameter.name in DEBUG_NAMES for parameter in self.parameters)
        return (SignatureParameter("args", self.args_kind, self.args), *count, *self.parameters, *(() if named else (DEBUG_CONTEXT,)))


_entry: Final = GraphcoreOperator
_one: Final = SignatureParameter


def _single_letter(value: object) -> str:
    if not isinstance(value, str) or len(value) != 1:
        raise Mismatch
    return value


_LETTER: Final = ArgumentKind(label="str", convert=_single_letter)
_REDUCTION: Final = _one("reduction", instance_of(ReductionType), ReductionType.Mean)
_SCATTER: Final = _one("reduction", instance_of(ScatterReduction), ScatterReduction.Sum)


_AXES_AND_SIZES: Final = (_one("axes", INTS), _one("sizes", INTS))
_NO_OVERLAP: Final = _one("noOverlap", INT, 0)
_GROUPED: Final = (
    _one("axis_size", INT),
    _one("axis", INT, -1),
    _SCATTER,
    _one("group_size", INT, 1),
    _one("enable_index_broadcast", INT, 1),
)
_NONE: Final[list[str]] = []  # the default of `args` where the original has one

TABLE: Final = (
    _entry("abort", "Abort", (0, 0), doc="Ends the program with an error; with an input, only if it is not zero.", outputs=0, args=_NONE),
    _entry("atan2", "Atan2", 2, doc="The angle of the point (x, y) in (-pi, pi]. Inputs: y, x."),
    _entry(
        "batchnormalization",
        "BatchNormalization",
        5,
        (_one("epsilon", FLOAT, 1e-05), _one("momentum", FLOAT, 0.9)),
        "Batch normalisation whose running variance divides by N - 1. Inputs: x, scale, bias, mean, variance.",
        outputs=5,
        attributes=batch_normalization,
        varies=True,
    ),
    _entry("bitwiseand", "BitwiseAnd", 2, doc="Bits that both inputs have.", args=_NONE),
    _entry("bitwisenot", "BitwiseNot", 1, doc="Bits that the input lacks.", args=_NONE),
    _entry("bitwiseor", "BitwiseOr", 2, doc="Bits that one of the inputs has.", args=_NONE),
    _entry("bitwisexor", "BitwiseXor", 2, doc="Bits that exactly one input has.", args=_NONE),
    _entry("bitwisexnor", "BitwiseXnor", 2, doc="Bits in which the inputs agree.", args=_NONE),
    _entry(
        "bucketize",
        "Bucketize",
        2,
        (_one("right", INT, 0),),
        "For each value the bucket that it is in. Inputs: values, sorted boundaries. right: whether buckets hold their right boundary.",
        args=_NONE,
    ),
    _entry("copyvarupdate", "CopyVarUpdate", 2, doc="Sets a variable, and gives its new value. Inputs: variable, values."),
    _entry(
        "ctcbeamsearchdecoder",
        "CtcBeamSearchDecoder",
        2,
        (_one("blank", INT, 0), _one("beam_width", INT, 100), _one("top_paths", INT, 1), _one("debug_context", DEBUG_CONTEXT.kind, "")),
        "The likeliest labellings. Inputs: log-probabilities [time, batch, classes], lengths [batch]. "
        "Outputs: log-probabilities [batch, paths], lengths [batch, paths], labels [batch, paths, time].",
        outputs=3,
    ),
    _entry(
        "ctcloss",
        "Ctc",
        4,
        (_REDUCTION, _one("blank", INT, 0), _one("outDataType", STR, "UNDEFINED"), _one("zeroInfinity", BOOL, False)),
        "Connectionist temporal classification. Inputs: log-probabilities [time, batch, classes], targets, input lengths, target lengths.",
        outputs=2,
        attributes=ctc_loss,
    ),
    _entry(
        "depthtospace",
        "DepthToSpace",
        1,
        (_one("blocksize", INT), _one("mode", STR)),
        "Moves blocks of channels to height and width. mode: DCR or CRD.",
        attributes=depth_to_space,
    ),
    _entry("detach", "Detach", 1, doc="The input, through which no gradient passes."),
    _entry(
        "dynamicslice",
        "DynamicSlice",
        (2, 3),
        (*_AXES_AND_SIZES, _NO_OVERLAP),
        "A slice at a place that is computed. Inputs: tensor, offsets.",
    ),
    _entry(
        "dynamicupdate",
        "DynamicUpdate",
        3,
        (*_AXES_AND_SIZES, _NO_OVERLAP),
        "The tensor with a slice replaced. Inputs: tensor, offsets, slice.",
    ),
    _entry("dynamiczero", "DynamicZero", 2, _AXES_AND_SIZES, "The tensor with zeros in a slice. Inputs: tensor, offsets."),
    _entry("dynamicadd", "DynamicAdd", 3, _AXES_AND_SIZES, "The tensor with a slice added to. Inputs: tensor, offsets, slice."),
    _entry("expm1", "Expm1", 1, doc="exp(x) - 1."),
    _entry("fmod", "Fmod", 2, doc="The remainder of the division, with the dividend's sign."),
    _entry("gelu", "Gelu", 1, doc="The Gaussian error linear unit, by tanh."),
    _entry("geluerf", "GeluErf", 1, doc="The Gaussian error linear unit, by the error function."),
    _entry(
        "groupedgather",
        "GroupedGather",
        2,
        (_one("axis", INT, 0), _one("group_size", INT, 1)),
        "A gather in each group of the first axis. Inputs: data, indices.",
        args=_NONE,
    ),
    _entry(
        "groupedscatterreduce",
        "ScatterReduce",
        (2, 3),
        _GROUPED,
        "A scatter with reduction in each group of the first axis. Inputs: data, indices[, initial values].",
        attributes=scatter,
        args=_NONE,
    ),
    _entry(
        "groupnormalization",
        "GroupNormalization",
        3,
        (_one("num_groups", INT), _one("epsilon", FLOAT, 1e-05)),
        "Normalisation over groups of channels. Inputs: x, scale, bias. Outputs: y, mean, 1 / standard deviation.",
        outputs=3,
        attributes=group_normalization,
    ),
    _entry("identityloss", "IdentityLoss", 1, (_REDUCTION,), "The input as a loss.", attributes=with_reduction),
    _entry(
        "incrementmod", "IncrementMod", 1, (_one("increment", FLOAT), _one("modulus", FLOAT)), "(x + increment) mod modulus.", args=_NONE
    ),
    _entry("l1loss", "L1", 1, (_one("lambda", FLOAT), _REDUCTION), "lambda times the sum of absolute values.", attributes=with_reduction),
    _entry("log1p", "Log1p", 1, doc="log(1 + x)."),
    _entry(
        "lstm",
        "LSTM",
        4,
        (_one("outputFullSequence", INT, 1),),
        "Long short-term memory. Inputs: x [time, batch, inputs], weights [4, inputs + hidden, hidden], biases [4, hidden], "
        "initial state [2, batch, hidden]. Outputs: outputs, cell state.",
        outputs=2,
        attributes=lstm,
    ),
    _entry("nearbyint", "NearbyInt", 1, doc="The nearest integer, halves to the even one."),
    _entry(
        "nllloss",
        "Nll",
        2,
        (_REDUCTION, _one("ignoreIndex", optional(INT), None), _one("inputIsLogProbability", BOOL, False)),
        "Negative log-likelihood. Inputs: probabilities [..., classes], labels [...].",
        attributes=with_reduction,
    ),
    _entry("nop", "Nop", 1, doc="The input; an operation that nothing is merged with."),
    _entry(
        "normalize_image", "NormalizeImage", 3, (_one("scale", FLOAT, 1.0),), "An image of 3 channels, normalised, with a fourth of zeros."
    ),
    _entry(
        "printtensor",
        "PrintTensor",
        1,
        (
            _one("print_gradient", INT, 1),
            DEBUG_CONTEXT,
            _one("title", STR, ""),
            _one("summariseThreshold", INT, 1000),
            _one("edgeItems", INT, 3),
            _one("maxLineWidth", INT, 75),
            _one("digits", INT, 8),
            _one("floatFormat", INT, 0),
            _one("separator", _LETTER, " "),
            _one("openBracket", _LETTER, "["),
            _one("closeBracket", _LETTER, "]"),
        ),
        "The input, which is printed on the host.",
        attributes=print_tensor,
    ),
    _entry(
        "reducemedian",
        "ReduceMedian",
        1,
        (_one("axes", optional(INTS), None), _one("keepdims", INT, 1)),
        "Medians, the lower one of two, and where they were.",
        outputs=2,
    ),
    _entry("remainder", "Remainder", 2, doc="The remainder of the division, with the divisor's sign."),
    _entry("reshape", "Reshape", 1, (_one("shape", INTS),), "The input in another shape; `args` is one id.", args_kind=STR),
    _entry("reverse", "Reverse", 1, (_one("dimensions", INTS),), "The input in reverse order along dimensions."),
    _entry("round", "Round", 1, doc="The nearest integer, halves away from zero."),
    _entry("scale", "Scale", 1, (_one("scale", FLOAT),), "scale * x."),
    _entry(
        "scaledadd",
        "ScaledAdd",
        (2, 4),
        (_one("scale0", FLOAT, 1.0), _one("scale1", FLOAT, 1.0)),
        "scale0 * x0 + scale1 * x1. Inputs: x0, x1[, scale0, scale1].",
    ),
    _entry(
        "scatterreduce",
        "ScatterReduce",
        (2, 3),
        (_one("axis_size", INT), _one("axis", INT, -1), _SCATTER, _one("enable_index_broadcast", INT, 1)),
        "What has the same index is reduced. Inputs: data, indices[, initial values].",
        attributes=scatter,
        args=_NONE,
    ),
    _entry(
        "sequenceslice",
        "SequenceSlice",
        5,
        (_one("zeroUnused", INT, 0),),
        "Copies sequences of rows. Inputs: source, destination, lengths, offsets in the source, offsets in the destination.",
    ),
    _entry(
        "shapeddropout",
        "ShapedDropout",
        1,
        (_one("shape", INTS), _one("ratio", FLOAT, 0.5)),
        "Dropout with a mask of a shape, which is broadcast to the input.",
    ),
    _entry(
        "slice",
        "Slice",
        1,
        (_one("ends", INTS), _one("starts", INTS), _one("axes", INTS)),
        "A slice along axes, all axes if none is named.",
        attributes=slice,
    ),
    _entry(
        "sort",
        "Sort",
        1,
        (_one("axis", INT, -1), _one("descending", INT, 0), _one("stable", INT, 0)),
        "Sorted values, and where they were.",
        outputs=2,
        args=_NONE,
    ),
    _entry(
        "splinebasis",
        "SplineBasis",
        3,
        (_one("degree", INT),),
        "B-spline bases and indices of weights. Inputs: pseudo-coordinates, kernel sizes, which splines are open.",
        outputs=2,
        args=_NONE,
    ),
    _entry("splineweighting", "SplineWeighting", 4, doc="Weights by a spline's bases. Inputs: input, weights, basis, indices.", args=_NONE),
    _entry("subsample", "Subsample", 1, (_one("strides", INTS),), "Every n-th element along each axis.", attributes=subsample),
    _entry("swish", "Swish", 1, doc="x * sigmoid(x).", args=_NONE),
    _entry(
        "tensorremap",
        "TensorRemap",
        (1, 2),
        (_one("remap_type", member_number(TensorRemapType), 0), _one("debugPrefix", DEBUG_CONTEXT.kind, "")),
        "The input, in another layout.",
    ),
)
INIT_PARAMETERS: Final = (_one("shape", INTS), _one("data_type", member_number(DataType)), _one("init_type", member_number(InitType)))
