"""What each operator of ai.graphcore takes and writes: one case for each, from the original's builder."""

from dataclasses import dataclass, field
from typing import Any

from tilestep import popart

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        signature: parameters with their defaults, but the debug context.
        inputs: types and shapes of `args`; () for none.
        given: other arguments.
        attributes: that the node has; None: those given.
    """

    signature: str
    op_type: str
    inputs: tuple[tuple[str, Shape], ...]
    given: dict[str, Any] = field(default_factory=dict[str, Any])
    attributes: dict[str, Any] | None = None

    def written(self) -> dict[str, Any]:
        """The attributes."""
        return self.given if self.attributes is None else self.attributes


def floats(*shapes: Shape) -> tuple[tuple[str, Shape], ...]:
    return tuple(("FLOAT", shape) for shape in shapes)


def ints(*shapes: Shape) -> tuple[tuple[str, Shape], ...]:
    return tuple(("INT32", shape) for shape in shapes)


def same(op_type: str, signature: str = "args") -> Case:
    return Case(signature, op_type, floats((2, 3)))


def bits(op_type: str, count: int) -> Case:
    return Case("args=[]", op_type, ints((2, 3), (3,))[:count])


def pair(op_type: str) -> Case:
    return Case("args", op_type, floats((2, 1), (3,)))


SUM, NO_REDUCTION = popart.ReductionType.Sum, popart.ReductionType.NoReduction

CASES: dict[str, Case] = {
    "abort": Case("args=[]", "Abort", ()),
    "atan2": pair("Atan2"),
    "batchnormalization": Case(
        "args num_outputs epsilon=1e-05 momentum=0.9",
        "BatchNormalization",
        floats((2, 3, 4), (3,), (3,), (3,), (3,)),
        given={"num_outputs": 5, "epsilon": 0.001},
        attributes={"epsilon": 0.001, "unbiased_variance": 0},
    ),
    "bitwiseand": bits("BitwiseAnd", 2),
    "bitwisenot": bits("BitwiseNot", 1),
    "bitwiseor": bits("BitwiseOr", 2),
    "bitwisexor": bits("BitwiseXor", 2),
    "bitwisexnor": bits("BitwiseXnor", 2),
    "bucketize": Case("args=[] right=0", "Bucketize", floats((2, 3), (4,)), given={"right": True}, attributes={"right": 1}),
    "copyvarupdate": Case("args", "CopyVarUpdate", floats((2, 3), (2, 3))),
    "ctcbeamsearchdecoder": Case(
        "args blank=0 beam_width=100 top_paths=1",
        "CtcBeamSearchDecoder",
        (("FLOAT", (9, 2, 5)), ("UINT32", (2,))),
        given={"top_paths": 3},
        attributes={"blank": 0, "beam_width": 100, "top_paths": 3},
    ),
    "ctcloss": Case(
        "args reduction=Mean blank=0 outDataType=UNDEFINED zeroInfinity=False",
        "Ctc",
        (("FLOAT16", (9, 2, 5)), ("UINT32", (2, 4)), ("UINT32", (2,)), ("UINT32", (2,))),
        given={"reduction": NO_REDUCTION, "outDataType": "FLOAT", "zeroInfinity": True},
        attributes={"reduction": "None", "blank": 0, "outDataType": 1, "zeroInfinity": 1},
    ),
    "depthtospace": Case("args blocksize mode", "DepthToSpace", floats((1, 8, 2, 3)), given={"blocksize": 2, "mode": "CRD"}),
    "detach": same("Detach"),
    "dynamicslice": Case(
        "args axes sizes noOverlap=0",
        "DynamicSlice",
        (("FLOAT", (5, 6)), ("UINT32", (1,))),
        given={"axes": [1], "sizes": [2]},
        attributes={"axes": [1], "sizes": [2], "noOverlap": 0},
    ),
    "dynamicupdate": Case(
        "args axes sizes noOverlap=0",
        "DynamicUpdate",
        (("FLOAT", (5, 6)), ("UINT32", (1,)), ("FLOAT", (5, 2))),
        given={"axes": (1,), "sizes": (2,), "noOverlap": True},
        attributes={"axes": [1], "sizes": [2], "noOverlap": 1},
    ),
    "dynamiczero": Case("args axes sizes", "DynamicZero", (("FLOAT", (5, 6)), ("UINT32", (1,))), given={"axes": [0], "sizes": [2]}),
    "dynamicadd": Case(
        "args axes sizes", "DynamicAdd", (("FLOAT", (5, 6)), ("UINT32", (1,)), ("FLOAT", (2, 6))), given={"axes": [0], "sizes": [2]}
    ),
    "expm1": same("Expm1"),
    "fmod": pair("Fmod"),
    "gelu": same("Gelu"),
    "geluerf": same("GeluErf"),
    "groupedgather": Case(
        "args=[] axis=0 group_size=1", "GroupedGather", (("FLOAT", (2, 5, 3)), ("INT32", (2, 4))), given={"axis": 1, "group_size": 2}
    ),
    "groupedscatterreduce": Case(
        "args axis_size axis=-1 reduction=Sum group_size=1 enable_index_broadcast=1",
        "ScatterReduce",
        (("FLOAT", (2, 5)), ("INT32", (2, 5))),
        given={"axis_size": 7, "group_size": 2, "reduction": popart.ScatterReduction.Max},
        attributes={"axis": -1, "axis_size": 7, "reduction": "max", "group_size": 2, "enable_index_broadcast": 1},
    ),
    "groupnormalization": Case(
        "args num_groups epsilon=1e-05", "GroupNormalization", floats((2, 6, 4), (6,), (6,)), given={"num_groups": 3}
    ),
    "identityloss": Case(
        "args reduction=Mean", "IdentityLoss", floats((2, 3)), given={"reduction": NO_REDUCTION}, attributes={"reduction": "None"}
    ),
    "incrementmod": Case(
        "args increment modulus",
        "IncrementMod",
        floats((2, 3)),
        given={"increment": 1, "modulus": 3.5},
        attributes={"increment": 1.0, "modulus": 3.5},
    ),
    "l1loss": Case(
        "args lambda_ reduction=Mean",
        "L1",
        floats((2, 3)),
        given={"lambda": 0.5, "reduction": SUM},
        attributes={"lambda": 0.5, "reduction": "Sum"},
    ),
    "log1p": same("Log1p"),
    "lstm": Case(
        "args outputFullSequence=1", "LSTM", floats((7, 2, 3), (4, 8, 5), (4, 5), (2, 2, 5)), attributes={"output_full_sequence": 1}
    ),
    "nearbyint": same("NearbyInt"),
    "nllloss": Case(
        "args reduction=Mean ignoreIndex=None inputIsLogProbability=False",
        "Nll",
        (("FLOAT", (2, 3, 10)), ("INT32", (2, 3))),
        given={"ignoreIndex": 4, "inputIsLogProbability": True},
        attributes={"reduction": "Mean", "ignoreIndex": 4, "inputIsLogProbability": 1},
    ),
    "nop": same("Nop"),
    "normalize_image": Case(
        "args scale=1.0", "NormalizeImage", (("UINT8", (2, 8, 8, 3)), ("FLOAT16", (3,)), ("FLOAT16", (3,))), attributes={"scale": 1.0}
    ),
    "printtensor": Case(
        "args print_gradient=1 title= summariseThreshold=1000 edgeItems=3 maxLineWidth=75 digits=8 floatFormat=0 "
        "separator=  openBracket=[ closeBracket=]",
        "PrintTensor",
        floats((2, 3)),
        given={"title": "t", "digits": 4, "separator": ","},
        attributes={
            "print_gradient": 1,
            "title": "t",
            "summariseThreshold": 1000,
            "edgeItems": 3,
            "maxLineWidth": 75,
            "digits": 4,
            "floatFormat": 0,
            "separator": 44,
            "openBracket": 91,
            "closeBracket": 93,
        },
    ),
    "reducemedian": Case("args axes=None keepdims=1", "ReduceMedian", floats((2, 3, 4)), given={"axes": [-1], "keepdims": 0}),
    "remainder": pair("Remainder"),
    "reshape": Case("args shape", "Reshape", floats((2, 6)), given={"shape": [3, 4]}),
    "reverse": Case("args dimensions", "Reverse", floats((2, 3)), given={"dimensions": [1]}),
    "round": same("Round"),
    "scale": Case("args scale", "Scale", floats((2, 3)), given={"scale": 2}, attributes={"scale": 2.0}),
    "scaledadd": Case(
        "args scale0=1.0 scale1=1.0", "ScaledAdd", floats((2, 3), (2, 3)), given={"scale1": 0.5}, attributes={"scale0": 1.0, "scale1": 0.5}
    ),
    "scatterreduce": Case(
        "args axis_size axis=-1 reduction=Sum enable_index_broadcast=1",
        "ScatterReduce",
        (("FLOAT", (5, 2)), ("INT32", (5, 2))),
        given={"axis_size": 7, "axis": 0, "enable_index_broadcast": False},
        attributes={"axis": 0, "axis_size": 7, "reduction": "sum", "group_size": 1, "enable_index_broadcast": 0},
    ),
    "sequenceslice": Case(
        "args zeroUnused=0",
        "SequenceSlice",
        (*floats((9, 4), (7, 4)), *(("UINT32", (2,)),) * 3),
        given={"zeroUnused": True},
        attributes={"zeroUnused": 1},
    ),
    "shapeddropout": Case(
        "args shape ratio=0.5", "ShapedDropout", floats((2, 3)), given={"shape": [2, 1]}, attributes={"shape": [2, 1], "ratio": 0.5}
    ),
    "slice": Case(
        "args ends starts axes",
        "Slice",
        floats((5, 6)),
        given={"ends": [3, -1], "starts": [0, 1], "axes": []},
        attributes={"ends": [3, -1], "starts": [0, 1]},
    ),
    "sort": Case(
        "args=[] axis=-1 descending=0 stable=0",
        "Sort",
        floats((2, 3)),
        given={"descending": 1},
        attributes={"axis": -1, "descending": 1, "stable": 0},
    ),
    "splinebasis": Case("args degree", "SplineBasis", (("FLOAT", (7, 2)), ("INT32", (2,)), ("UINT8", (2,))), given={"degree": 2}),
    "splineweighting": Case("args=[]", "SplineWeighting", (*floats((7, 3), (9, 3, 5), (7, 4)), ("INT32", (7, 4)))),
    "subsample": Case("args strides", "Subsample", floats((10, 9)), given={"strides": [2, 4]}),
    "swish": same("Swish", "args=[]"),
    "tensorremap": Case(
        "args remap_type=0", "TensorRemap", floats((2, 3)), given={"remap_type": popart.TensorRemapType.Fwd}, attributes={"remap_type": 2}
    ),
    "replicatedallreduce": Case(
        "args collectiveOperator=None commGroup=None",
        "ReplicatedAllReduce",
        floats((2, 3)),
        given={"collectiveOperator": popart.CollectiveOperator.Mean, "commGroup": popart.CommGroup(popart.CommGroupType.Orthogonal, 4)},
        attributes={"__collectiveOperator": 1, "__collectiveCommGroup": [2, 4]},
    ),
    "replicatedreducescatter": Case("args collectiveOperator=None commGroup=None", "ReplicatedReduceScatter", floats((2, 3))),
}
OTHERS = frozenset({"call", "init", "multiconv", "packedDataBlock"})  # have tests of their own
