"""MLIR and the dialects that JAX lowers programs to, from jaxlib's bindings."""

from __future__ import annotations

from jax._src.lib.mlir import ir as ir
from jax._src.lib.mlir.dialects import func as func
from jax._src.lib.mlir.dialects import hlo as hlo
from jax._src.lib.mlir.dialects import sdy as sdy
