"""The name `tensorflow.python.ipu`: after `install()`, programs that import it get this package's `ipu`.

TensorFlow itself is the one from PyPI. In the form of TensorFlow 1, `import tensorflow` gives its `compat.v1`, as Graphcore's had it.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, Final

from tilestep.tensorflow.residency import watch_sessions

_NAME: Final = "tensorflow.python.ipu"
_ADDONS: Final = "ipu_tensorflow_addons"  # Graphcore's package with Keras layers that were in `tensorflow.python.ipu` before
_HERE: Final = "tilestep.tensorflow.ipu"
_OTHER_PLACES: Final = MappingProxyType(  # of modules that the original has in packages
    {
        **{
            f"ops.{name}": name
            for name in ("pipelining_ops", "rand_ops", "rnn_ops", "nn_ops", "normalization_ops", "embedding_ops", "cross_replica_ops")
        },
        "optimizers.cross_replica_optimizer": "optimizers",
        "optimizers.gradient_accumulation_optimizer": "optimizers",
    }
)
_REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "custom_ops": "it loads compiled C++ for the IPU; write the operation with tf, or with @tf.custom_gradient",
        "ipu_estimator": "stock TensorFlow has no estimators any more; write the loop with loops.repeat",
        "ipu_pipeline_estimator": "stock TensorFlow has no estimators any more; write the pipeline with pipelining_ops.pipeline",
        "ipu_run_config": "stock TensorFlow has no estimators any more; write the loop with loops.repeat",
        "ipu_session_run_hooks": "stock TensorFlow has no estimators any more; read an IPUOutfeedQueue",
        "ipu_multi_worker_strategy": "one process has all replicas here: set auto_select_ipus",
        "horovod": "one process has all replicas here: set auto_select_ipus; several processes are tilestep.train.start_processes",
        "distributed": "one process has all replicas here: set auto_select_ipus; several processes are tilestep.train.start_processes",
        "embedded_runtime": "compiled programs are not served here; jax.export keeps a JAX function",
        "application_compile_op": "compiled programs are not served here; jax.export keeps a JAX function",
        "serving": "compiled programs are not served here; jax.export keeps a JAX function",
        "internal_ops": "send values out of the loop with IPUOutfeedQueue.enqueue",
        "image_ops": "write the operation with tf.image",
        "sharding": "scopes.ipu_shard divides a program; stages of pipelining_ops.pipeline run apart",
    }
)


def install() -> None:
    """Makes `tensorflow.python.ipu` this package's, in this process. A second call changes nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        watch_sessions()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `tensorflow.python.ipu.x` as `tilestep.tensorflow.ipu.x`, and refuses what has no counterpart."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if fullname not in (_NAME, _ADDONS) and not fullname.startswith((f"{_NAME}.", f"{_ADDONS}.")):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        assert isinstance(module, _Module)
        module.fill()


class _Module(ModuleType):
    """A module of the original, with the names that are here."""

    def fill(self) -> None:
        """Raises: ModuleNotFoundError for a module that is not here; it says what is instead."""
        rest = self.__name__.removeprefix(_NAME).removeprefix(_ADDONS).removeprefix(".")
        top = rest.partition(".")[0]
        here = _OTHER_PLACES.get(rest, rest)
        try:
            found = importlib.import_module(f"{_HERE}.{here}" if here and here != "ops" else _HERE)
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith(_HERE):
                raise
            why = _REFUSED.get(top, "docs/how-to/tensorflow.md lists those that it has")
            raise ModuleNotFoundError(f"tilestep has no {self.__name__}: {why}") from None  # with its name, an import would not say why
        self.__dict__.update({name: value for name, value in vars(found).items() if not name.startswith("_")})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return importlib.import_module(f"{self.__name__}.{name}")
        except ModuleNotFoundError as error:
            top = self.__name__.removeprefix(_NAME).removeprefix(_ADDONS).removeprefix(".")
            raise AttributeError(
                f"tilestep has no {self.__name__}.{name}" + ("" if top else f": {str(error).partition(': ')[2]}")
            ) from None
