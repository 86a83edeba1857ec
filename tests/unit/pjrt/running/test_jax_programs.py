"""Programs of JAX's own are known by their names."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from tilestep.pjrt.running.jax_programs import is_jax_program


@pytest.mark.parametrize(
    "name",
    ["jit_add", "jit_dynamic_slice", "jit_scatter_add", "jit__threefry_fold_in", "jit_clip", "jit__where", "jit_cumsum", "jit_multiply"],
)
def test_operations_and_functions_of_jax(name: str) -> None:
    assert is_jax_program(name)


@pytest.mark.parametrize(
    "name", ["jit_train_step", "jit_update", "jit_loss", "jit__lambda", "jit_step", "jit_f", "add", "pmap_add", "jit_"]
)
def test_functions_of_users(name: str) -> None:
    assert not is_jax_program(name)


def test_a_module_of_jax_that_is_imported_later_counts() -> None:
    import sys
    import types

    assert not is_jax_program("jit_tilestep_late")

    @jax.jit
    def tilestep_late(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    module = types.ModuleType("jax.tilestep_late")
    module.tilestep_late = tilestep_late  # pyright: ignore[reportAttributeAccessIssue]
    sys.modules[module.__name__] = module
    try:
        assert is_jax_program("jit_tilestep_late")
    finally:
        del sys.modules[module.__name__]
    assert not is_jax_program("jit_tilestep_late")
