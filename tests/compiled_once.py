"""Compiling is shared in a process of tests, which make many small programs, and many that are the same.

XLA:CPU compiles each program once. An executable has no state: what JAX knows of a function stands beside it. Programs that call back are
left alone, because their text has the addresses of Python's objects, and so are those of emulated IPUs, whose executables are what is
tested. Programs of the main thread are lowered in few MLIR contexts. `make test-all` does all of it as users do.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Final

_MOST: Final = 500
_TURNS: Final = 200  # programs in one MLIR context, which keeps all types, places and constants that it has had
_keeping = threading.Lock()
_known: dict[Any, Any] = {}  # by text, client and options; who was asked for last stands last


def share() -> None:
    """Has JAX look for a program here before it compiles it. With a JAX that has no such function nothing is shared."""
    from jax._src import compiler

    compile_and_load: Any = getattr(compiler, "backend_compile_and_load", None)
    if compile_and_load is None or not os.environ.get("XLA_FLAGS"):
        return
    apart = _share_contexts()

    def once(backend: Any, module: Any, executable_devices: Any, options: Any, host_callbacks: Any) -> Any:
        text = str(module) if backend.platform == "cpu" and not host_callbacks else "custom_call"
        if "custom_call" in text:
            return compile_and_load(backend, apart(module), executable_devices, options, host_callbacks)
        key = text, backend, options.SerializeAsString()
        with _keeping:
            found = _known.pop(key, None)
        found = found or compile_and_load(backend, apart(module), executable_devices, options, host_callbacks)
        with _keeping:  # a pipeline's programs are compiled in several threads
            _known[key] = found  # the last one
            while len(_known) > _MOST:
                del _known[next(iter(_known))]
        return found

    compiler.backend_compile_and_load = once  # pyright: ignore[reportAttributeAccessIssue]


def _share_contexts() -> Any:
    """Has JAX lower many programs in one MLIR context: to make one takes as long as to lower a small program.

    What is lowered in another thread, or in the midst of something else, has a context to itself.

    Returns:
        What gives a module that no other thread's work can touch: the module, or where another thread than the main one asks, a copy.
    """
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    make, shared, turns = mlir.make_ir_context, None, 0

    def is_apart() -> bool:
        return threading.current_thread() is not threading.main_thread()

    def is_inside() -> bool:
        try:
            return ir.Context.current is not None
        except ValueError:
            return False

    def context() -> Any:
        nonlocal shared, turns
        asks = sys._getframe(1).f_globals.get("__name__", "")
        if is_apart() or is_inside() or asks.startswith("tilestep."):  # which keeps its own, in any thread
            return make()
        if shared is None or turns == _TURNS:
            shared, turns = make(), 0
        turns += 1
        shared.allow_unregistered_dialects = False  # who asked before may have allowed them
        return shared

    def apart(module: Any) -> Any:
        return ir.Module.parse(mlir.module_to_bytecode(module), make()) if is_apart() else module

    mlir.make_ir_context = context
    return apart
