"""Options with the names of Poplar's libraries: of the engine, of its reports, and of operators.

An unknown option is a poplar_exception whose message ends with the original's words.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tilestep.engine_options import EFFECTIVE, EngineOptions, read_engine_options
from tilestep.errors import SettingsError
from tilestep.messages import nearest, shown
from tilestep.popart.exceptions import poplar_exception
from tilestep.popart.options.option_fields import OptionFields
from tilestep.poplar_keys import NO_EFFECT

_PLAN_OPTIONS: Final = ("availableMemoryProportion", "partialsType")
_CONVOLUTION: Final = (
    *_PLAN_OPTIONS,
    "enableConvDithering",
    "enableFastReduce",
    "enableMultiStageReduce",
    "interTilePartialsType",
    "partialsType.interIPU",
    "partialsType.interTile",
    "pass",
    "planConstraints",
    "planConstraintsOutputFilename",
    "remapOutputTensor",
    "tilesPerIPU",
    "use128BitConvUnitLoad",
    "workerStartOffset",
)
KNOWN: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "convolutionOptions": _CONVOLUTION,
        "matmulOptions": (*_CONVOLUTION, "fullyConnectedPass", "inputRHSIsPreArranged"),
        "lstmOptions": (
            *_PLAN_OPTIONS,
            "inferenceOnly",
            "numShards",
            "preCalcWeights",
            "recomputationMode",
            "rnnCodeReuse",
            "weightAccumulatorsType",
        ),
        "gclOptions": ("link", "maxBytesPerTile", "method", "syncful.useOptimisedLayout", "topology", "useReplicatedImplementation"),
        "reportOptions": ("colours", "showExecutionSteps", "showOptimizations", "showPerIpuMemoryUsage", "showVarStorage"),
    }
)
_OPERATORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "MatMul": "matmulOptions",
        "Gemm": "matmulOptions",
        "LSTM": "lstmOptions",
        **dict.fromkeys(("Conv", "ConvTranspose", "MultiConv"), "convolutionOptions"),
    }
)


def require_known(options: OptionFields) -> EngineOptions:
    """Checks all options of libraries, as prepareDevice must.

    Returns: what `engineOptions` asks for.
    Raises: poplar_exception for an option that does not exist, or has a value that is not allowed.
    """
    for name, known in KNOWN.items():
        given: Mapping[str, str] = getattr(options, name)
        for key, value in given.items():
            _require(name, key, known)
            if key in _PLAN_OPTIONS:
                _require_tuning(name, key, value)
    for key in options.engineOptions:
        _require("engineOptions", key, (*EFFECTIVE, *NO_EFFECT))
    try:
        return read_engine_options("", options.engineOptions, source="SessionOptions.engineOptions")
    except SettingsError as error:
        raise poplar_exception(str(error)) from None


def tuning_of(options: OptionFields, op_type: str) -> dict[str, str | float]:
    """Node attributes that nodes of a type get where they have none of their own: `__partials_type`, `__available_memory`.

    Args: op_type: of the node, without its domain.
    """
    given: Mapping[str, str] = getattr(options, _OPERATORS[op_type]) if op_type in _OPERATORS else {}
    found: dict[str, str | float] = {}
    if "partialsType" in given:
        found["__partials_type"] = given["partialsType"].lower()
    if op_type in ("MatMul", "Gemm") and options.partialsTypeMatMuls:
        found["__partials_type"] = options.partialsTypeMatMuls.lower()
    if "availableMemoryProportion" in given:
        found["__available_memory"] = float(given["availableMemoryProportion"])
    return found


def _require(name: str, key: str, known: tuple[str, ...]) -> None:
    if key in known:
        return
    near = nearest(key, known)
    hint = f" The nearest option is '{near}'." if near else f" There are {', '.join(known)}."
    raise poplar_exception(f"SessionOptions.{name}:{hint} Unrecognised option '{key}'")


def _require_tuning(name: str, key: str, value: str) -> None:
    if key == "partialsType":
        allowed = value.lower() in ("half", "float")
    else:
        try:
            allowed = 0 < float(value) <= 1
        except ValueError:
            allowed = False
    if not allowed:
        bound = "half or float" if key == "partialsType" else "a number more than 0, at most 1"
        raise poplar_exception(f"SessionOptions.{name}[{key!r}] is {shown(value)}: it must be {bound}")
