"""`tensorflow.python.ipu.utils`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from tilestep.tensorflow.ipu.config import DeviceConnectionType as DeviceConnectionType
from tilestep.tensorflow.ipu.config import ExecutionProfileType as ExecutionProfileType
from tilestep.tensorflow.ipu.config import IPUConfig as IPUConfig
from tilestep.tensorflow.ipu.config import MergeRemoteBuffersBehaviour as MergeRemoteBuffersBehaviour
from tilestep.tensorflow.ipu.config import SelectionOrder as SelectionOrder
from tilestep.tensorflow.ipu.config import configure_ipu_system as configure_ipu_system
from tilestep.tensorflow.ipu.config import get_ipu_config as get_ipu_config
from tilestep.tensorflow.ipu.config import reset_ipu_configuration as reset_ipu_configuration
from tilestep.train.numbers import whole_number


def move_variable_initialization_to_cpu(graph: Any = None) -> None:
    """Nothing to do: variables of a session are always initialised by it."""
    del graph


def create_ipu_config(**options: Any) -> IPUConfig:
    """Options of before SDK 2.1: an `IPUConfig`. Args: options: no effect, as profiles are those of `tilestep run --report`."""
    del options
    return IPUConfig()


def auto_select_ipus(config: IPUConfig, num_ipus: int | Iterable[int]) -> IPUConfig:
    """Sets how many IPUs a program has. Returns: the same options."""
    config.auto_select_ipus = num_ipus if isinstance(num_ipus, int) else list(num_ipus)
    return config


def select_ipus(config: IPUConfig, indices: Iterable[int]) -> IPUConfig:
    """Sets which IPUs a program has. Returns: the same options."""
    config.select_ipus = list(indices)
    return config


def reset_ipu_seed(seed: int, device: Any = None, cpu_device: str = "cpu", experimental_identical_replicas: bool = False) -> None:
    """Random numbers of programs have no seed: XLA makes other ones in each step and call, and a warning says so once.

    Raises: TypeError if the seed is no whole number.
    """
    del device, cpu_device, experimental_identical_replicas
    whole_number("seed", seed, least=-(2**63), most=2**63 - 1)
    if not _warned:
        _warned.append(seed)
        warnings.warn(
            "reset_ipu_seed has no effect: random numbers are others in each run; tf.random.stateless_* and rand_ops.dropout(seed=...) "
            "give the same ones",
            UserWarning,
            stacklevel=2,
        )


_warned: list[int] = []
