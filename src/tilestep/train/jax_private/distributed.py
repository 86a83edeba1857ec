"""What JAX knows of a program of several processes and does not tell: private names of JAX, used here alone.

Where JAX has one no more, or not as it is known here, it finds out or chooses by itself, and the caller hears that.
"""

import gc
import math
import warnings
from typing import Any

from jax.extend.backend import register_backend_factory

from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


def has_started() -> bool:
    """Whether JAX has started a device. After that it joins no processes."""
    try:
        from jax._src import xla_bridge

        bridge: Any = xla_bridge
        return bridge.backends_are_initialized()
    except (ImportError, AttributeError):
        return False  # JAX refuses by itself


def coordinator_address() -> str | None:
    """ "host:port" of JAX's coordinator, once it has joined the processes."""
    try:
        from jax._src import distributed

        state: Pytree = distributed
        return state.global_state.coordinator_address
    except (ImportError, AttributeError):
        return None


def publish(key: str, value: str) -> None:
    """Gives all processes a value, in place of the one before. Raises: RuntimeError if JAX's coordinator is gone."""
    if (client := _client()) is not None:
        client.key_value_set(key, value, allow_overwrite=True)


def published(prefix: str) -> list[tuple[str, str]]:
    """All keys that begin so, with their values. Raises: RuntimeError if JAX's coordinator is gone."""
    client = _client()
    return [] if client is None else client.key_value_dir_get(prefix)


def _client() -> Any:
    """JAX's client of its coordinator; None: it has none, or not by this name."""
    try:
        from jax._src import distributed

        state: Pytree = distributed
        return state.global_state.client
    except (ImportError, AttributeError):
        return None


def shut_down_without_garbage() -> None:
    """Lets JAX shut its coordinator down without a warning from each process at the end of a program.

    JAX forgets its devices first, but cycles of objects keep their client alive, which watches the coordinator. The client warns when the
    coordinator goes. So the cycles are collected in between.
    """
    try:
        from jax._src import distributed

        module: Any = distributed
        state = module.global_state
        shut_down = state.shutdown

        def collect_and_shut_down() -> None:
            gc.collect()
            shut_down()

        state.shutdown = collect_and_shut_down
    except (ImportError, AttributeError):
        return  # then the warning comes


def in_cluster(
    coordinator_address: str | None, num_processes: int | None, process_id: int | None, timeout_s: float
) -> tuple[str | None, int | None, int | None]:
    """The coordinator's address, the number of processes and this one's: what is None as JAX finds it out (Slurm, Open MPI, Kubernetes,
    TPU), and None where it does not.

    Raises: what JAX raises where it finds a cluster and not what it needs to know of it.
    """
    given = coordinator_address, num_processes, process_id
    if None not in given:
        return given
    try:
        from jax._src import clusters

        find: Any = clusters.ClusterEnv.auto_detect_unset_distributed_params
    except (ImportError, AttributeError):
        return given
    no_devices: list[int] = []  # which devices are this process's JAX finds out later
    address, count, process, _ = find(*given, no_devices, None, math.ceil(timeout_s))
    return address, count, process


def let_collectives_listen_at(host: str) -> None:
    """Of JAX's collectives on CPU: by themselves they listen at the address that this machine's name has."""
    if _jax.config.jax_cpu_collectives_implementation != "gloo":
        return
    try:
        from jax._src import distributed, lib, xla_bridge

        library: Any = lib
        bridge: Any = xla_bridge
        state: Pytree = distributed.global_state
        make_collectives, make_client = library._jax.make_gloo_tcp_collectives, bridge.make_cpu_client
    except (ImportError, AttributeError):
        warnings.warn(
            f"this version of JAX ({_jax.__version__}) does not let tilestep choose where its collectives listen: at the address of this "
            "machine's name",
            RuntimeWarning,
            stacklevel=2,
        )
        return

    def client() -> Any:
        return make_client(make_collectives(distributed_client=state.client, hostname=host))

    register_backend_factory("cpu", client, priority=0, fail_quietly=False)
