"""Which stages a model might have: proposed by what its operators take on the device's IPUs."""

from tilestep.popart.session.proposals.proposal import ProposedStage as ProposedStage
from tilestep.popart.session.proposals.proposal import StagedOperator as StagedOperator
from tilestep.popart.session.proposals.proposal import StageProposal as StageProposal
from tilestep.popart.session.proposals.propose import propose_stages as propose_stages
