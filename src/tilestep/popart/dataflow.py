"""What a session returns: how often a step runs the model, and which tensors leave the device when."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final, overload

from tilestep.messages import shown
from tilestep.popart.enums import AnchorReturnTypeId, ExchangeStrategy, TileSet
from tilestep.popart.exceptions import noted, popart_exception
from tilestep.popart.whole_numbers import whole

_IDS: Final = {
    "final": AnchorReturnTypeId.Final,
    "everyn": AnchorReturnTypeId.EveryN,
    "all": AnchorReturnTypeId.All,
    "sum": AnchorReturnTypeId.Sum,
}
_NAMES: Final = "Final, EveryN, All, Sum"
_NO_PERIOD: Final = "A return period should not be supplied for this anchor return type"


@final
class AnchorReturnType:
    """When an anchored tensor leaves the device.

    "Final": the last microbatch's. "All": each microbatch's. "EveryN": every N-th microbatch's. "Sum": the sum over all microbatches.
    """

    def __init__(
        self,
        anchorReturnTypeString: str = "All",
        returnPeriod: int | TileSet | None = None,
        tileSet: TileSet | ExchangeStrategy = TileSet.Compute,
        exchangeStrategy: ExchangeStrategy = ExchangeStrategy.JustInTime,
    ) -> None:
        """Args: anchorReturnTypeString: see above, in any case. returnPeriod: N, for "EveryN" alone.

        Raises: popart_exception for another name, and for a period that is missing, superfluous or below 1; TypeError for a period that
            is no whole number.
        """
        if isinstance(returnPeriod, TileSet):  # the form without a period has the tile set in its place
            if isinstance(tileSet, ExchangeStrategy):
                exchangeStrategy = tileSet
            returnPeriod, tileSet = None, returnPeriod
        if not isinstance(tileSet, TileSet):
            raise TypeError(f"tileSet is {tileSet!r}: it must be a TileSet")
        if not isinstance(anchorReturnTypeString, str):
            raise TypeError(f"anchorReturnTypeString must be one of {_NAMES}, not {shown(anchorReturnTypeString)}")
        identity = _IDS.get(anchorReturnTypeString.lower())
        if identity is None:
            unknown = popart_exception(f"Invalid anchor return type ID supplied: {anchorReturnTypeString}")
            raise noted(unknown, f"It must be one of {_NAMES}.")
        if identity != AnchorReturnTypeId.EveryN and returnPeriod is not None:
            raise popart_exception(_NO_PERIOD)
        if identity == AnchorReturnTypeId.EveryN and returnPeriod is None:
            raise popart_exception("Must specify return period with option 'EVERYN'")
        period = None if returnPeriod is None else whole("returnPeriod", returnPeriod)
        if period is not None and period <= 0:
            raise noted(popart_exception("Anchor return period must be greater than zero"), f"It is {period}.")
        self._id, self._period = identity, period
        self._tile_set, self._exchange_strategy = tileSet, exchangeStrategy

    def __repr__(self) -> str:
        period = "" if self._period is None else f", {self._period}"
        return f"AnchorReturnType({self._id.name!r}{period})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnchorReturnType) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return (self._id, self._period, self._tile_set, self._exchange_strategy)

    def id(self) -> AnchorReturnTypeId:
        """Which of the four it is."""
        return self._id

    def rp(self) -> int:
        """The return period. Raises: popart_exception unless it is "EveryN"."""
        if self._period is None:
            raise popart_exception(_NO_PERIOD)
        return self._period

    def tileSet(self) -> TileSet:
        """The tiles that send the tensor."""
        return self._tile_set

    def exchangeStrategy(self) -> ExchangeStrategy:
        """When the tensor is sent."""
        return self._exchange_strategy


@final
class DataFlow:
    """How many batches a call of `session.run` processes, and which tensors it returns.

    A batch is one update of the weights in training, and one run of the model in inference.
    """

    @overload
    def __init__(self, batchesPerStep: int, anchorTensors: Mapping[str, AnchorReturnType], /) -> None: ...
    @overload
    def __init__(self, batchesPerStep: int, anchorIds: Sequence[str], anchorReturnType: AnchorReturnType = ..., /) -> None: ...  # pyrefly: ignore[inconsistent-overload-default]
    @overload
    def __init__(
        self,
        batchesPerStep: int,
        anchorTensors: Mapping[str, AnchorReturnType] | Sequence[str] | None = None,
        anchorReturnType: AnchorReturnType | None = None,
        *,
        anchorIds: Sequence[str] | None = None,
    ) -> None: ...
    def __init__(
        self,
        batchesPerStep: int,
        anchorTensors: Mapping[str, AnchorReturnType] | Sequence[str] | None = None,
        anchorReturnType: AnchorReturnType | None = None,
        *,
        anchorIds: Sequence[str] | None = None,
    ) -> None:
        """Args: anchorTensors: names and when they are returned; or names alone, with one `anchorReturnType` ("All").

        Raises: popart_exception for a number below 1, and for a period that does not divide it; TypeError for what is no whole number.
        """
        given = anchorIds if anchorTensors is None else anchorTensors
        if given is None:
            raise TypeError("DataFlow needs anchorTensors: names of tensors, or a dict of AnchorReturnType by name")
        if isinstance(given, str):
            raise TypeError(f"anchorTensors is the text {given!r}: it must be a list of names, or a dict")
        if not isinstance(given, Iterable):
            raise TypeError(f"anchorTensors is {shown(given)}: it must be a list of names, or a dict")
        self._batches_per_step = whole("batchesPerStep", batchesPerStep)
        if self._batches_per_step <= 0:
            raise noted(popart_exception("'Batches per step' must be greater than zero"), f"It is {batchesPerStep}.")
        every = AnchorReturnType("All") if anchorReturnType is None else anchorReturnType
        self._anchors = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, every)
        for name, kind in self._anchors.items():
            self._require_period(name, kind)

    def _require_period(self, name: str, kind: AnchorReturnType) -> None:
        if kind.id() != AnchorReturnTypeId.EveryN:
            return
        batches = self._batches_per_step
        if kind.rp() > batches:
            raise noted(
                popart_exception("Return period must be <= to the number of batches per step"),
                f"It is {kind.rp()} of '{name}', of {batches} batches.",
            )
        if batches % kind.rp():
            raise noted(
                popart_exception("Return period must be a factor of the number of batches per step"),
                f"It is {kind.rp()} of '{name}', of {batches} batches.",
            )

    def isAnchored(self, name: str) -> bool:
        """Whether the tensor is returned."""
        return name in self._anchors

    def nAnchors(self) -> int:
        """How many tensors are returned."""
        return len(self._anchors)

    def batchesPerStep(self) -> int:
        """Batches of a call of `run`."""
        return self._batches_per_step

    def setBatchesPerStep(self, batches: int) -> None:
        """Sets the number of batches, before a session is made of it."""
        self.__init__(batches, self._anchors)

    def anchors(self) -> list[str]:
        """Names of the tensors that are returned, sorted as PopART's map sorts them."""
        return sorted(self._anchors)

    def art(self, name: str) -> AnchorReturnType:
        """When a tensor is returned. Raises: popart_exception if it is not."""
        if name not in self._anchors:
            raise popart_exception(f"Tensor {name} is not an anchor: the anchors are {', '.join(sorted(self._anchors)) or 'none'}")
        return self._anchors[name]


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """One tensor that a session returns.

    Attributes:
        name: of the tensor.
        kind: when it is returned.
        period: of "EveryN"; 1 for the others.
    """

    name: str
    kind: AnchorReturnTypeId
    period: int

    @property
    def is_stacked(self) -> bool:
        """Whether more than one microbatch's value is returned."""
        return self.kind in (AnchorReturnTypeId.All, AnchorReturnTypeId.EveryN)

    def leading(self, *, batches: int, accumulation: int, replicas: int = 1) -> list[int]:
        """Dimensions in front of the tensor's own: batches, microbatches of each, replicas."""
        stacked = [batches // self.period, accumulation] if self.is_stacked else []
        return [*stacked, replicas]


def anchors_of(flow: DataFlow) -> list[Anchor]:
    """The anchors of a data flow, sorted by name."""
    kinds = [(name, flow.art(name)) for name in flow.anchors()]
    return [Anchor(name=name, kind=kind.id(), period=kind.rp() if kind.id() == AnchorReturnTypeId.EveryN else 1) for name, kind in kinds]
