"""The name `tensorflow.python.ipu`: its modules are those here, and what there is not says what is instead."""

import importlib
from typing import Any

import pytest

import tilestep.tensorflow
from tilestep.tensorflow.ipu import config, programs
from tilestep.tensorflow.untyped import tf, warn_of_version


def test_modules_and_names_are_served() -> None:
    tilestep.tensorflow.install()
    ipu: Any = importlib.import_module("tensorflow.python.ipu")
    assert ipu.config.IPUConfig is ipu.utils.IPUConfig is config.IPUConfig
    assert importlib.import_module("tensorflow.python.ipu.scopes").ipu_scope is programs.ipu_scope
    assert importlib.import_module("tensorflow.python.ipu.ops.rand_ops").dropout is ipu.rand_ops.dropout
    assert importlib.import_module("ipu_tensorflow_addons.keras.layers").LSTM is ipu.keras.layers.LSTM


@pytest.mark.parametrize(("name", "instead"), [("custom_ops", "compiled C"), ("horovod", "auto_select_ipus"), ("no_such", "docs/how-to")])
def test_what_there_is_not_says_what_is_instead(name: str, instead: str) -> None:
    ipu: Any = importlib.import_module("tensorflow.python.ipu")
    with pytest.raises(ImportError, match=rf"no tensorflow\.python\.ipu\.{name}: .*{instead}"):
        importlib.import_module(f"tensorflow.python.ipu.{name}")
    with pytest.raises(AttributeError, match=instead):
        getattr(ipu, name)


def test_another_tensorflow_is_a_warning_and_the_tested_one_is_none() -> None:
    warn_of_version(tf.__version__)
    with pytest.warns(UserWarning, match=r"tested with TensorFlow 2\.21, and this is 2\.19\.0: pip install"):
        warn_of_version("2.19.0")
