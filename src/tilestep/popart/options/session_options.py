"""SessionOptions: the options of a session, and what several of them say together."""

from __future__ import annotations

from typing import Any, final

from tilestep.popart.enums import DeviceType
from tilestep.popart.environment import read_environment
from tilestep.popart.log import warn
from tilestep.popart.options.checks import require_supported
from tilestep.popart.options.fates import Situation
from tilestep.popart.options.option_fields import OptionFields
from tilestep.popart.options.placement_checks import replicas_of
from tilestep.popart.options.table import PROGRAM


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

    @property
    def defaultPrefetchBufferingDepth(self) -> int:
        """The old name of defaultBufferingDepth."""
        return self.defaultBufferingDepth

    @defaultPrefetchBufferingDepth.setter
    def defaultPrefetchBufferingDepth(self, depth: int) -> None:
        _renamed("defaultPrefetchBufferingDepth", "defaultBufferingDepth")
        self.defaultBufferingDepth = depth

    @property
    def prefetchBufferingDepthMap(self) -> dict[str, int]:
        """The old name of bufferingDepthMap."""
        return self.bufferingDepthMap

    @prefetchBufferingDepthMap.setter
    def prefetchBufferingDepthMap(self, depths: dict[str, int]) -> None:
        _renamed("prefetchBufferingDepthMap", "bufferingDepthMap")
        self.bufferingDepthMap = depths

    @property
    def serializedPoprithmsAnnealGraphsDir(self) -> str:
        """The old name of serializedPoprithmsShiftGraphsDir."""
        return self.serializedPoprithmsShiftGraphsDir

    @serializedPoprithmsAnnealGraphsDir.setter
    def serializedPoprithmsAnnealGraphsDir(self, folder: str) -> None:
        self.serializedPoprithmsShiftGraphsDir = folder

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


def _renamed(old: str, new: str) -> None:
    warn(f"SessionOptions.{old} has been deprecated: its name is {new} now")
