"""Sessions: a model, its data flow, a device and an optimiser, run as compiled programs."""

from tilestep.popart.exceptions import OutOfMemoryException as OutOfMemoryException
from tilestep.popart.session.session import InferenceSession as InferenceSession
from tilestep.popart.session.session import TrainingSession as TrainingSession
