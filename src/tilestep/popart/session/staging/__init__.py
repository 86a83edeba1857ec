"""The stages of a session: which operators run on which IPU, and what they pass on."""

from tilestep.popart.session.model.stages import Kind as Kind
from tilestep.popart.session.model.stages import SessionStage as SessionStage
from tilestep.popart.session.model.stages import Staging as Staging
from tilestep.popart.session.staging.checks import require_ipus as require_ipus
from tilestep.popart.session.staging.placing import staging_of as staging_of
