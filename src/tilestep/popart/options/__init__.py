"""Options of a session, and what each one does here."""

from tilestep.popart.options.libraries import require_known as require_known
from tilestep.popart.options.libraries import tuning_of as tuning_of
from tilestep.popart.options.locations import TensorLocation as TensorLocation
from tilestep.popart.options.locations import TensorLocationSettings as TensorLocationSettings
from tilestep.popart.options.session_options import SessionOptions as SessionOptions
from tilestep.popart.options.settings import AccumulateOuterFragmentSettings as AccumulateOuterFragmentSettings
from tilestep.popart.options.settings import AutodiffSettings as AutodiffSettings
from tilestep.popart.options.settings import AutomaticLossScalingSettings as AutomaticLossScalingSettings
from tilestep.popart.options.settings import BatchSerializationSettings as BatchSerializationSettings
from tilestep.popart.options.settings import ExecutionPhaseSettings as ExecutionPhaseSettings
from tilestep.popart.options.settings import ExperimentalSettings as ExperimentalSettings
from tilestep.popart.options.settings import NumIOTiles as NumIOTiles
from tilestep.popart.options.settings import ReplicatedCollectivesSettings as ReplicatedCollectivesSettings
