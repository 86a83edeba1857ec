"""Programs written for TensorFlow for the IPU, on stock TensorFlow and `tilestep.train`: an import of this serves `tensorflow.python.ipu`.

`tilestep run --tensorflow PROGRAM` runs one unchanged. In a program of your own, `import tilestep.tensorflow` before
`from tensorflow.python import ipu`.
"""

import importlib.util
import os

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # Keras 3 has another training loop; read when tf.keras is first used
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow looks for a GPU, and says much of it
if importlib.util.find_spec("tensorflow") is None:
    raise ImportError("tilestep.tensorflow needs TensorFlow: pip install 'tilestep[tensorflow]'")

from tilestep.tensorflow.install import install as install
from tilestep.tensorflow.install import use_version_1 as use_version_1

install()
