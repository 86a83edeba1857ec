"""What `pipelines.py` compares, in JAX: ways to train one model, which take turns."""

from __future__ import annotations

import abc
import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.models.stages import MICROBATCHES, STAGES, Size, adam, batches, parameters, stages
from benchmarks.pipeline_processes import Times
from tilestep.train import Pipeline


class Side(abc.ABC):
    """One way to train: `step` does an update and waits for it.

    Attributes: host_wall_s, host_cpu_s: of the last one, as `Times` has them.
    """

    host_wall_s = host_cpu_s = 0.0

    @abc.abstractmethod
    def step(self) -> None:
        """One update."""

    @abc.abstractmethod
    def moments(self) -> list[np.ndarray]:
        """As `Remote` has them."""

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Around what the host does until it is free."""
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        yield
        self.host_wall_s, self.host_cpu_s = time.perf_counter() - wall_s, time.thread_time() - cpu_s

    def timed_step(self) -> Times:
        """One update, and how long it took."""
        begin = time.perf_counter()
        self.step()
        return Times(time.perf_counter() - begin, self.host_wall_s, self.host_cpu_s)


class OneDevice(Side):
    """One jitted program."""

    def __init__(self, size: Size) -> None:
        functions, optimizer = stages(size), adam()
        self._params = jax.device_put(parameters(size), jax.devices()[0])
        self._state = jax.jit(optimizer.init)(self._params)
        self._data = batches(size)

        def loss(params: Any, *args: Any) -> Any:
            for function, own in zip(functions[:-1], params[:-1], strict=True):
                args = function(own, *args)
            return functions[-1](params[-1], *args)

        def update(params: Any, state: Any, data: Any) -> Any:
            def step(total: Any, element: Any) -> Any:
                value, gradients = jax.value_and_grad(loss)(params, *element)
                return jax.tree.map(jnp.add, total, gradients), value

            total, losses = jax.lax.scan(step, jax.tree.map(jnp.zeros_like, params), data)
            changes, state = optimizer.update(jax.tree.map(lambda g: g / MICROBATCHES, total), state, params)
            return optax.apply_updates(params, changes), state, losses

        self._update = jax.jit(update, donate_argnums=(0, 1))

    def step(self) -> None:
        with self.starting():
            self._params, self._state, losses = self._update(self._params, self._state, self._data)
        jax.block_until_ready((self._params, self._state, losses))

    def moments(self) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(self._state[0].mu)]


class Stages(Side):
    """`Pipeline`."""

    def __init__(self, size: Size, program: Any, recompute: Any) -> None:
        self._pipeline = Pipeline(
            stages(size), adam(), MICROBATCHES, pipeline_schedule="interleaved", reduction="mean", recompute=recompute, program=program
        )
        self._state, self._data = self._pipeline.init(parameters(size)), batches(size)

    def step(self) -> None:
        with self.starting():
            self._state, losses = self._pipeline.step(self._state, self._data)
        jax.block_until_ready((self._state, losses))

    def moments(self) -> list[np.ndarray]:
        states: Any = self._state.optimizer_state
        return [np.asarray(leaf) for own in states for leaf in jax.tree.leaves(own[0].mu)]


class SpectraX(Side):
    """SpectraX's gradients of the mean loss, and the update of each stage by itself. Labels are used where the last stage is."""

    def __init__(self, size: Size) -> None:
        import spectrax
        from spectrax.runtime.mpmd import sxjit, sxstage_iter, sxvalue_and_grad
        from spectrax.runtime.mpmd.runtime import resolve_mpmd_mesh

        logging.disable(logging.INFO)  # the first updates are told at length
        mesh = spectrax.create_mesh(axis_dims=(STAGES, 1, 1, 1, 1, 1), mpmd_axis="pp")
        functions, optimizer = stages(size), adam()

        def loss(params: Any, tokens: Any, labels: Any) -> Any:
            x = tokens
            for function, own in zip(functions[:-1], params[:-1], strict=True):
                x = sxstage_iter(function(own, x, labels)[0])
            return functions[-1](params[-1], x, labels)

        scheduled = sxjit(loss, mesh=mesh, schedule=spectrax.Std1F1B(microbatches=MICROBATCHES), batch_argnums=(1, 2))
        self._gradients = sxvalue_and_grad(scheduled)
        self._places = [resolve_mpmd_mesh(mesh).sub_sharding(stage) for stage in range(STAGES)]
        self._params = [jax.device_put(own, place) for own, place in zip(parameters(size), self._places, strict=True)]
        self._states = [jax.jit(optimizer.init)(own) for own in self._params]
        self._data = [leaf.reshape(-1, size.tokens) for leaf in batches(size)]

        def update(params: Any, state: Any, gradients: Any) -> Any:
            changes, state = optimizer.update(gradients, state, params)
            return optax.apply_updates(params, changes), state

        self._update = jax.jit(update, donate_argnums=(0, 1))

    def step(self) -> None:
        with self.starting():
            loss, (gradients,) = self._gradients(self._params, *self._data)
            there = [jax.device_put(own, place) for own, place in zip(gradients, self._places, strict=True)]
            new = [self._update(*own) for own in zip(self._params, self._states, there, strict=True)]
            self._params, self._states = [own for own, _ in new], [state for _, state in new]
        jax.block_until_ready((self._params, self._states, loss))

    def moments(self) -> list[np.ndarray]:
        return [np.asarray(leaf) for state in self._states for leaf in jax.tree.leaves(state[0].mu)]
