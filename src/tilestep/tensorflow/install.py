"""The name `tensorflow.python.ipu`: after `install()`, programs that import it get this package's modules.

TensorFlow itself is the one from PyPI. In the form of TensorFlow 1, `import tensorflow` gives its `compat.v1`, as Graphcore's had it.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, Final

from tilestep.tensorflow import residency
from tilestep.tensorflow.tf_private import sessions
from tilestep.tensorflow.untyped import tf

# `ipu_tensorflow_addons` is Graphcore's package with Keras layers that were in `tensorflow.python.ipu` before.
_NAMES: Final = ("tensorflow.python.ipu", "ipu_tensorflow_addons")
_ESTIMATORS: Final = "stock TensorFlow has no estimators any more; write "


def _by_name(*groups: tuple[str, str]) -> Mapping[str, str]:
    return MappingProxyType({name: given for given, names in groups for name in names.split()})


_PLACES: Final = _by_name(  # module -> names of the original's modules that it has
    ("tilestep.tensorflow.ipu", "_ ops"),
    ("tilestep.tensorflow.ipu.config", "config utils"),
    ("tilestep.tensorflow.ipu.optimizers", "optimizers gradient_accumulation cross_replica_optimizer gradient_accumulation_optimizer"),
    ("tilestep.tensorflow.ipu.ops", "cross_replica_ops embedding_ops nn_ops normalization_ops rand_ops replication_ops rnn_ops"),
    ("tilestep.tensorflow.ipu.pipelining_ops", "pipelining_ops"),
    ("tilestep.tensorflow.ipu.programs", "ipu_compiler loops scopes"),
    ("tilestep.tensorflow.ipu.queues", "ipu_infeed_queue ipu_outfeed_queue dataset_benchmark"),
    ("tilestep.tensorflow.ipu.strategy", "ipu_strategy"),
    ("tilestep.tensorflow.ipu.keras_models", "keras"),
    ("tf_keras.layers", "keras.layers"),
)
_REFUSED: Final = _by_name(
    ("it loads compiled C++ for the IPU; write the operation with tf, or with @tf.custom_gradient", "custom_ops"),
    (f"{_ESTIMATORS}the loop with loops.repeat", "ipu_estimator ipu_run_config ipu_session_run_hooks"),
    (f"{_ESTIMATORS}the pipeline with pipelining_ops.pipeline", "ipu_pipeline_estimator"),
    (
        "one process has all replicas here: set auto_select_ipus; several processes are tilestep.train.start_processes",
        "ipu_multi_worker_strategy horovod distributed",
    ),
    ("compiled programs are not served here; jax.export keeps a JAX function", "embedded_runtime application_compile_op serving"),
    ("send values out of the loop with IPUOutfeedQueue.enqueue", "internal_ops"),
    ("write the operation with tf.image", "image_ops"),
    ("scopes.ipu_shard divides a program; stages of pipelining_ops.pipeline run apart", "sharding"),
)


def install() -> None:
    """Makes `tensorflow.python.ipu` this package's, in this process. A second call changes nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        sessions.watch(residency.using)


def use_version_1() -> None:
    """`import tensorflow` gives TensorFlow 1's interface and behaviour from now on, as Graphcore's TensorFlow 1 had it."""
    first: Any = tf.compat.v1
    level = tf.get_logger().level
    tf.get_logger().setLevel("ERROR")  # it says that TensorFlow 1 is no more
    first.disable_v2_behavior()
    tf.get_logger().setLevel(level)
    exact = first.Dimension.__init__

    def whole(self: Any, value: Any) -> None:
        """A whole float is a size, too, as in TensorFlow 1."""
        exact(self, int(value) if isinstance(value, float) and value.is_integer() else value)

    first.Dimension.__init__ = whole
    first.__path__ = tf.__path__
    first.python = sys.modules["tensorflow.python"]
    place_on_host(first)
    sys.modules["tensorflow"] = first


def place_on_host(first: Any) -> None:
    """Nodes in `tf.device("/device:IPU:0")` are the host's: `ipu_compiler.compile` makes the IPU's. Args: first: TensorFlow 1."""
    made = first.device

    def device(device_name_or_function: Any) -> Any:
        is_ipu = isinstance(device_name_or_function, str) and "device:IPU" in device_name_or_function
        return made("/device:CPU:0" if is_ipu else device_name_or_function)

    first.device = device


def _rest(fullname: str) -> str | None:
    """A module's name in the original's package, "_" for the package; None for a module of another."""
    return next((fullname[len(name) + 1 :] or "_" for name in _NAMES if f"{fullname}.".startswith(f"{name}.")), None)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of the original, and refuses what has no counterpart."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return None if _rest(fullname) is None else importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Raises: ModuleNotFoundError for a module that is not here; it says what is instead."""
        rest = _rest(module.__name__) or ""
        place = _PLACES.get(rest) or _PLACES.get(rest.removeprefix("ops.").removeprefix("optimizers."))
        if place is None:
            why = _REFUSED.get(rest.partition(".")[0], "docs/how-to/tensorflow.md lists those that it has")
            raise ModuleNotFoundError(f"tilestep has no {module.__name__}: {why}")  # with its name, an import would not say why
        found = importlib.import_module(place)
        vars(module).update({name: value for name, value in vars(found).items() if not name.startswith("_")})


class _Module(ModuleType):
    """A module of the original, with the names that are here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return importlib.import_module(f"{self.__name__}.{name}")
        except ModuleNotFoundError as error:
            why = f": {str(error).partition(': ')[2]}" if self.__name__ in _NAMES else ""
            raise AttributeError(f"tilestep has no {self.__name__}.{name}{why}") from None
