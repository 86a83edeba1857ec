"""`tensorflow.python.ipu.keras`: what it has beside `tf.keras`, whose models `IPUStrategy.scope()` puts on the IPU."""

from tilestep.tensorflow.keras_models import PipelineStage as PipelineStage
