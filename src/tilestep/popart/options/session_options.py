"""SessionOptions: the options of a session, and what several of them say together."""

from typing import Any, final

from tilestep.popart.diagnostics.environment import read_environment
from tilestep.popart.diagnostics.log import warn
from tilestep.popart.enums import DeviceType
from tilestep.popart.former import gone
from tilestep.popart.options.checks import require_supported
from tilestep.popart.options.option_fields import OptionFields
from tilestep.popart.options.option_support import Situation, replicas_of
from tilestep.popart.options.table import PROGRAM


class _Former:
    """An option under its former name. Args: new: today's. warns: whether it says so when it is set."""

    def __init__(self, new: str, *, warns: bool = True) -> None:
        self._new, self._warns, self._name = new, warns, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, options: Any, owner: type) -> Any:
        return self if options is None else getattr(options, self._new)

    def __set__(self, options: Any, value: Any) -> None:
        if self._warns:
            warn(f"SessionOptions.{self._name} has been deprecated: its name is {self._new} now")
        setattr(options, self._new, value)


@final
class SessionOptions(OptionFields):
    """The options of a session.

    `cachePath` and `enableEngineCaching` come from POPART_CACHE_DIR where it is set.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        folder = read_environment().cache_dir
        if folder:
            self.enableEngineCaching, self.cachePath = True, folder

    # --- Second names ---

    defaultPrefetchBufferingDepth = _Former("defaultBufferingDepth")
    prefetchBufferingDepthMap = _Former("bufferingDepthMap")
    serializedPoprithmsAnnealGraphsDir = _Former("serializedPoprithmsShiftGraphsDir", warns=False)
    accumulationReductionType = _Former("accumulationAndReplicationReductionType")
    meanAccumulationReductionStrategy = _Former("meanAccumulationAndReplicationReductionStrategy")
    pingPongSettings = _Former("executionPhaseSettings")

    def __getattr__(self, name: str) -> Any:
        """Raises: AttributeError, with today's way for an option that there was before."""
        raise AttributeError(gone(name) or f"'SessionOptions' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if (instead := gone(name)) is not None:
            raise AttributeError(instead)
        super().__setattr__(name, value)

    # --- What several fields say together ---

    def enableExplicitIR(self, enable: bool) -> None:
        """Sets useHostCopyOps, enableExplicitMainLoops and explicitRecomputation."""
        self.useHostCopyOps = self.enableExplicitMainLoops = self.explicitRecomputation = enable

    def getGlobalReplicationFactor(self) -> int:
        """The number of replicas in all processes."""
        if self.enableDistributedReplicatedGraphs:
            return self.globalReplicationFactor
        return self.replicatedGraphCount if self.enableReplicatedGraphs else 1

    def of_program(self) -> dict[str, Any]:
        """Name -> plain value of the changed options that change the program or its plan. Equal ones may share an executable."""
        plain = self.as_plain()
        return {name: plain[name] for name in sorted(self.changed().keys() & PROGRAM)}

    def require_supported(
        self, *, training: bool, device: DeviceType = DeviceType.Cpu, num_ipus: int | None = None, tiles: int = 1472
    ) -> None:
        """Checks the options of a session that is about to be made, and warns of those that have no effect though someone waits for one.

        Args:
            training: whether the session trains.
            device: the kind of its device.
            num_ipus: of its device; None: as many as there are replicas.
            tiles: of each IPU.
        Raises: popart_exception naming the option, its value and what to do.
        """
        ipus = replicas_of(self) if num_ipus is None else num_ipus
        require_supported(self, Situation(training=training, device=device, num_ipus=ipus, tiles=tiles))
