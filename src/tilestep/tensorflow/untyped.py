"""Where types end: TensorFlow has none that a type checker here could read, and is imported when this package is."""

import sys
import warnings
from typing import Any, Final, TypeAlias

_KERAS: Final = "tf_keras.src.optimizers"  # TensorFlow imports it at once, which takes a second; tf.keras does when it is used
_is_late: Final = not {"tensorflow", _KERAS} & set(sys.modules)
if _is_late:
    sys.modules[_KERAS] = None  # pyrefly: ignore[unsupported-operation]
import tensorflow as _untyped  # noqa: E402  # pyrefly: ignore[missing-import]

if _is_late:
    del sys.modules[_KERAS]

tf: Final[Any] = _untyped
v1: Final[Any] = tf.compat.v1


def warn_of_version(version: str) -> None:
    """Warns of a TensorFlow with which nothing was tested: private parts of it may be elsewhere."""
    if not version.startswith("2.21."):  # pyproject.toml has the same bounds
        warnings.warn(
            f"tilestep.tensorflow was tested with TensorFlow 2.21, and this is {version}: pip install 'tilestep[tensorflow]'", stacklevel=2
        )


warn_of_version(tf.__version__)

Tensor: TypeAlias = Any
Operation: TypeAlias = Any  # a node of a graph
Graph: TypeAlias = Any  # a tf.Graph; a FuncGraph is one too
Session: TypeAlias = Any  # a tf.compat.v1.Session, or another one of its base class
Structure: TypeAlias = Any  # nested lists, tuples and dicts of tensors
TensorSpec: TypeAlias = Any  # a tf.TensorSpec
