"""Operators that have no derivative, with the reason of each."""

from typing import Final

from tests.unit.onnx.ops.gradients.slopes import ML

_WHOLE: Final = "its inputs or its outputs are integers, Booleans, text or maps of them"
_STEPS: Final = "its result is constant but for jumps, so the derivative is 0"
_SHAPES: Final = "its result depends on shapes, types and known values only"
_RANDOM: Final = "its result is random, and depends on no input but by jumps"
_NAMES: Final[dict[str, str]] = {
    _WHOLE: """And ArgMax ArgMin BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor ConvInteger Equal Greater GreaterOrEqual
        IsInf IsNaN Less LessOrEqual MatMulInteger NonMaxSuppression NonZero Not Or QLinearConv QLinearMatMul QuantizeLinear RegexFullMatch
        StringConcat StringNormalizer StringSplit TfIdfVectorizer Xor""",
    _STEPS: "Ceil Floor Hardmax Round Sign",
    _SHAPES: """BlackmanWindow Constant ConstantOfShape EyeLike HammingWindow HannWindow MelWeightMatrix OptionalHasElement Range
        SequenceEmpty SequenceLength Shape Size""",
    _RANDOM: "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
}
_ML_NAMES: Final[dict[str, str]] = {
    _WHOLE: "CastMap CategoryMapper DictVectorizer LabelEncoder OneHotEncoder",
    _STEPS: "Binarizer TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
}
NOT_DIFFERENTIABLE: Final[dict[tuple[str, str], str]] = {
    (domain, name): reason
    for domain, reasons in (("", _NAMES), (ML, _ML_NAMES))
    for reason, names in reasons.items()
    for name in names.split()
}
