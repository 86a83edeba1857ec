"""Clients that JAX's registry of platforms does not have."""

from __future__ import annotations

import functools
from typing import Any

from jax._src.lib import xla_client

from tilestep.pjrt.jax_private import compat

Client = Any


def make_client(platform: str, options: dict[str, str]) -> Client:
    """Another client of a registered plugin. JAX takes a backend from the devices that it is given, so they work as any others.

    Args: options: that the plugin gets.
    """
    if not xla_client.pjrt_plugin_initialized(platform):
        xla_client.initialize_pjrt_plugin(platform)
    return xla_client.make_c_api_client(platform, options, None)


@functools.cache
def analysis_host(num_devices: int) -> compat.HostClient:
    """XLA:CPU, which partitions programs for so many devices and computes nothing."""
    return compat.make_host_client(num_devices)
