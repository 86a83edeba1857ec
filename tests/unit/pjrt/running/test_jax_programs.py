"""Programs of JAX's own are known by their names."""

import gc
import sys
import types

import jax
import jax.numpy as jnp
import pytest

from tilestep.pjrt.running.jax_programs import is_jax_program


@pytest.mark.parametrize(
    "name",
    [
        "jit_add",
        "jit_dynamic_slice",
        "jit_scatter_add",
        "jit__threefry_fold_in",
        "jit_clip",
        "jit__where",
        "jit_cumsum",
        "jit_multiply",
        "jit_relu",
    ],
)
def test_operations_and_functions_of_jax(name: str) -> None:
    assert is_jax_program(name)


@pytest.mark.parametrize(
    "name", ["jit_train_step", "jit_update", "jit_loss", "jit__lambda", "jit_step", "jit_f", "add", "pmap_add", "jit_"]
)
def test_functions_of_users(name: str) -> None:
    assert not is_jax_program(name)


def test_a_module_of_jax_that_is_imported_later_counts() -> None:

    assert not is_jax_program("jit_tilestep_late")

    @jax.jit
    def tilestep_late(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    module = types.ModuleType("jax.tilestep_late")
    module.tilestep_late = tilestep_late
    sys.modules[module.__name__] = module
    try:
        assert is_jax_program("jit_tilestep_late")
    finally:
        del sys.modules[module.__name__]
    assert not is_jax_program("jit_tilestep_late")


def test_modules_may_be_imported_while_names_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread, for which the collection of garbage stands: it comes as objects are made."""
    made = [f"tilestep_late_{number}" for number in range(2000)]

    def imported(phase: str, _: object) -> None:
        if phase == "start" and made:
            monkeypatch.setitem(sys.modules, made.pop(), types.ModuleType("late"))

    monkeypatch.setitem(sys.modules, "tilestep_first", types.ModuleType("first"))  # so that the names are looked for anew
    threshold = gc.get_threshold()
    gc.callbacks.append(imported)
    gc.set_threshold(1)
    try:
        assert is_jax_program("jit_add")
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(imported)
    assert len(made) < 2000
