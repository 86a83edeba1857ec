"""The part of the builder's core that tunes single nodes: memory, partial results, serialisation, patterns."""

from __future__ import annotations

from typing import Any, Final

from tilestep.popart.builder import attribute_names as names
from tilestep.popart.builder.kinds import BOOL, FLOAT, ID_SET, INT, STR, STRS, dict_of
from tilestep.popart.builder.node_attributes import NodeAttributes
from tilestep.popart.builder.signatures import Parameter, overloaded
from tilestep.popart.exceptions import popart_exception

_OUTPUT: Final = Parameter(name="nodeOutputName", kind=STR)
_OUTPUTS: Final = Parameter(name="nodeOutputNames", kind=ID_SET)
_PROPORTION: Final = Parameter(name="availableMemoryProportion", kind=FLOAT)
_WITH_PARTIALS: Final = ("Conv", "MatMul")
_SERIALIZE_MODES: Final = ("input_channels", "reducing_dim", "output_channels", "none")


class Tuning(NodeAttributes):
    """Tuning of single nodes, which changes time and memory, and no values but by rounding."""

    @overloaded((_OUTPUT, _PROPORTION), (_OUTPUTS, _PROPORTION))
    def setAvailableMemoryProportion(
        self, availableMemoryProportion: float, nodeOutputName: str | None = None, nodeOutputNames: frozenset[str] = frozenset()
    ) -> None:
        """The part of a tile's memory that a node may use. A second call counts. Raises: popart_exception outside (0, 1]."""
        if not 0.0 < availableMemoryProportion <= 1.0:
            raise popart_exception("availableMemoryProportion must be in (0,1]")
        outputs = nodeOutputNames if nodeOutputName is None else frozenset({nodeOutputName})
        if self.nodeHasAttribute(names.AVAILABLE_MEMORY, outputs):
            self.removeNodeAttribute(names.AVAILABLE_MEMORY, outputs)
        self.addNodeAttribute(names.AVAILABLE_MEMORY, availableMemoryProportion, outputs)

    @overloaded((_OUTPUT, Parameter(name="partialsType", kind=STR)))
    def setPartialsType(self, nodeOutputName: str, partialsType: str) -> None:
        """The type of partial results, FLOAT or HALF. Raises: popart_exception for nodes other than convolutions and matrix products."""
        self._require(nodeOutputName, "setPartialsType", _WITH_PARTIALS, f"operators: {', '.join(_WITH_PARTIALS)};")
        self._set(names.PARTIALS_TYPE, partialsType, nodeOutputName)

    @overloaded((_OUTPUT,), returns="str")
    def getPartialsType(self, nodeOutputName: str) -> str:
        """The type of a node's partial results, FLOAT if none was set."""
        if not self.nodeHasAttribute(names.PARTIALS_TYPE, {nodeOutputName}):
            return "FLOAT"
        return self.getStringNodeAttribute(names.PARTIALS_TYPE, {nodeOutputName})

    @overloaded((_OUTPUT, Parameter(name="enableConvDithering", kind=INT)))
    def setEnableConvDithering(self, nodeOutputName: str, enableConvDithering: int) -> None:
        """Whether a convolution is laid out from another tile than others. Raises: popart_exception for other nodes, and beyond 0 and 1."""
        if enableConvDithering not in (0, 1):
            raise popart_exception("enableConvDithering must be a bool value")
        self._require(nodeOutputName, "setEnableConvDithering", ("Conv",), "convolutions")
        self._set(names.CONV_DITHERING, enableConvDithering, nodeOutputName)

    @overloaded(
        (
            Parameter(name="nodeOutputName", kind=ID_SET),
            Parameter(name="mode", kind=STR),
            Parameter(name="factor", kind=INT, default=0),
            Parameter(name="keep_precision", kind=BOOL, default=False),
        )
    )
    def setSerializeMatMul(self, nodeOutputName: frozenset[str], mode: str, factor: int, keep_precision: bool) -> None:
        """Computes a matrix product in parts: mode input_channels, reducing_dim, output_channels or none.

        Raises: popart_exception for another mode.
        """
        if mode not in _SERIALIZE_MODES:
            shown = ", ".join(f"'{one}'" for one in _SERIALIZE_MODES[:-1])
            raise popart_exception(f"Unsupported mat mul serialization mode '{mode}'. Supported modes are {shown} or 'none'")
        if mode != "none":
            self.addNodeAttribute(names.SERIALIZE_MATMUL_MODE, mode, nodeOutputName)
            self.addNodeAttribute(names.SERIALIZE_MATMUL_FACTOR, factor, nodeOutputName)
            self.addNodeAttribute(names.SERIALIZE_MATMUL_PRECISION, int(keep_precision), nodeOutputName)

    @overloaded((_OUTPUT, Parameter(name="patternNames", kind=STRS)), (_OUTPUTS, Parameter(name="patternNames", kind=STRS)))
    def excludePatterns(
        self, patternNames: list[str], nodeOutputName: str | None = None, nodeOutputNames: frozenset[str] = frozenset()
    ) -> None:
        """Patterns that must not change a node."""
        self._set(names.EXCLUDE_PATTERNS, patternNames, nodeOutputNames if nodeOutputName is None else nodeOutputName)

    @overloaded((_OUTPUT, Parameter(name="prefs", kind=dict_of(FLOAT))))
    def setInplacePreferences(self, nodeOutputName: str, prefs: dict[str, float]) -> None:
        """Priorities of a node's in-place variants, by their names."""
        ordered = sorted(prefs)
        self._set(names.INPLACE_NAMES, ordered, nodeOutputName)
        self._set(names.INPLACE_PRIORITIES, [prefs[name] for name in ordered], nodeOutputName)

    def _set(self, name: str, value: Any, outputs: str | frozenset[str]) -> None:
        self._model.set_attribute(self._model.node_of([outputs] if isinstance(outputs, str) else outputs), name, value)

    def _require(self, output: str, method: str, wanted: tuple[str, ...], words: str) -> None:
        found = self._model.node_of([output]).op_type
        if found not in wanted:
            raise popart_exception(f"Builder::{method} should only be called on {words} but was given: {found}")
