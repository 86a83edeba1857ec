"""Pipelined training without accumulation: each microbatch updates the weights, and forward reads older ones than backward."""

from tilestep.popart.session.stale.gradients import Asked as Asked
from tilestep.popart.session.stale.gradients import Differentiated as Differentiated
from tilestep.popart.session.stale.gradients import StaleWeights as StaleWeights
from tilestep.popart.session.stale.versions import Rings as Rings
