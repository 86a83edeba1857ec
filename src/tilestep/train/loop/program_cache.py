"""Caches the jitted programs of loops, so that JAX neither traces nor compiles a loop that is called again."""

from __future__ import annotations

import itertools
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import jax
import numpy as np
from jax.typing import ArrayLike

from tilestep import hints
from tilestep.train.convolutions import ConvolvingProgram
from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.gradients.recompute import Recompute, in_loop
from tilestep.train.loop import finite, update_pattern
from tilestep.train.loop.replicated import ReplicatedLoop
from tilestep.train.loop.step import step_of, traced, truth
from tilestep.train.other_arguments import Body, Step, name_of
from tilestep.train.planned import CompilerOptions, planned
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


class JittedProgram(Protocol):
    """A jitted program."""

    def __call__(self, *args: Pytree) -> Any:
        """Starts it."""
        ...

    def trace(self, *args: Pytree) -> Any:
        """The result of `jax.jit`'s `trace`."""
        ...


FIRST_IN_FLIGHT: Final = 4  # chunks, until the loop has measured how long one takes

_MOST_OTHERS: Final = 128  # bodies that are no plain functions, which the cache keeps alive

_serial = itertools.count(1)
_lock = threading.Lock()
_of_functions: weakref.WeakKeyDictionary[Any, dict[Hashable, LoopPrograms]] = weakref.WeakKeyDictionary()
_of_others: OrderedDict[Hashable, dict[Hashable, LoopPrograms]] = OrderedDict()


class ChunkSpan(NamedTuple):
    """The steps of a chunk's program.

    Attributes:
        steps: how many.
        every: steps for each update, if it is known which steps of the chunk update. None: each step finds out.
        first: number of the chunk's first step that updates, counted from 1. None: none updates.
    """

    steps: int
    every: int | None = None
    first: int | None = None


@dataclass(kw_only=True)
class LoopPrograms:
    """The programs of one loop."""

    name: str  # no other loop has it
    programs: dict[ChunkSpan, JittedProgram]  # programs by the chunks that they run
    make: Callable[[LoopPrograms, ChunkSpan], JittedProgram]  # makes another one
    unsteady: bool = False  # whether its body has turned out not to add one microbatch for each step
    in_flight: int = FIRST_IN_FLIGHT  # chunks to start before the host waits for the device
    groups: set[str] = field(default_factory=set[str])  # names of program groups that only this loop enters

    def __post_init__(self) -> None:
        hints.groups_gone_with(self, self.groups)

    def program(self, span: ChunkSpan) -> JittedProgram:
        """The program of a chunk."""
        program = self.programs.get(span)
        if program is None:
            program = self.programs[span] = self.make(self, span)
        return program


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """What a loop's programs depend on, beside its functions."""

    key: Hashable = None  # two loops of one body with different keys have programs of their own
    has_infeed: bool = False  # whether the body gets an element
    outfeed: weakref.ref[OutfeedQueue] | None = None  # refers to the queue, which the programs do not keep alive
    keeps_last: bool = False  # whether the outfeed keeps the last step's values alone
    shardings: Pytree = None  # a tree of the carry's shardings; None lets XLA choose
    replicated: ReplicatedLoop | None = None  # the replicas that it runs on
    recompute: Recompute = None  # as `recomputed` functions in the body do it
    options: CompilerOptions = ()  # options of the plan, on emulated IPUs
    check_nans: bool = False  # whether each step looks at the carry, which is not donated then

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Equal for loops that share programs, if their functions are the same."""
        return self.has_infeed, self.outfeed, self.key, self.replicated, self.recompute, self.options, self.check_nans

    def step_of(self, body: Body) -> Step:
        """One step of the body, with the loop's feeds."""
        outfeed = None if self.outfeed is None else self.outfeed()
        return step_of(in_loop(body, self.recompute), has_infeed=self.has_infeed, outfeed=outfeed)


def repeat_loop(body: Body, settings: LoopSettings) -> LoopPrograms:
    """The loop of `repeat`. Its programs are (carry, stacked elements) -> (carry, stacked values of the outfeed).

    With `check_nans` the values are (these, what `finite.first_wrong` takes).
    """
    function = _reference(body)

    def scanned(steps: tuple[Step, ...], carry: Pytree, elements: Pytree, span: ChunkSpan) -> tuple[Pytree, Pytree]:
        if not settings.check_nans:
            return _scanned(steps, carry, elements, span, last_only=settings.keeps_last)
        state = finite.looked_at(carry)
        (carry, _, found), values = _scanned(tuple(map(finite.looking, steps)), state, elements, span, last_only=settings.keeps_last)
        return carry, (values, found[None])

    def make(loop: LoopPrograms, span: ChunkSpan) -> JittedProgram:
        def run(carry: Pytree, elements: Pytree) -> tuple[Pytree, Pytree]:
            if span.every is not None:
                try:
                    steps = (
                        settings.step_of(update_pattern.specialized(function(), "between")),
                        settings.step_of(update_pattern.specialized(function(), "last")),
                    )
                    return scanned(steps, carry, elements, span)
                except (
                    TypeError,
                    ValueError,
                ):  # the body adds another number of microbatches, or has an error, which the line below raises again
                    loop.unsteady = True
            return scanned((settings.step_of(function()),), carry, elements, ChunkSpan(steps=span.steps))

        return _jitted(run, f"repeat_{name_of(function())}", (settings.shardings, None), settings)

    return _cached(body, ("repeat", *settings.identity), make)


def _scanned(steps: tuple[Step, ...], carry: Pytree, elements: Pytree, span: ChunkSpan, *, last_only: bool) -> tuple[Pytree, Pytree]:
    """(carry, stacked values) after the chunk's steps. Args: steps: one step, or (a step that does not update, a step that does)."""

    def scanned(steps: tuple[Step, ...], carry: Pytree) -> tuple[Pytree, Pytree]:
        if span.every is None:
            return _jax.lax.scan(steps[0], carry, elements, length=span.steps)
        between, last = steps
        return update_pattern.scan(between, last, carry, elements, steps=span.steps, count=span.every, first=span.first)

    if not last_only:
        return scanned(steps, carry)
    first = _jax.tree.map(lambda stacked: stacked[0], elements)
    once, specs = traced(steps[0], carry, first)
    zeros = _jax.tree.map(lambda spec: _jax.numpy.zeros(spec.shape, spec.dtype), specs)

    def newest(step: Step) -> Step:
        return lambda state, element: (step(state[0], element), None)

    (carry, values), _ = scanned(tuple(map(newest, (once, *steps[1:]))), (carry, zeros))
    return carry, _jax.tree.map(lambda value: value[None], values)


def while_loop_loop(body: Body, condition: Callable[[Pytree], ArrayLike], settings: LoopSettings) -> LoopPrograms:
    """The loop of `while_loop`. Its programs are (carry, most steps, stacked elements) -> (carry, status, stacked values).

    `status`, int32[], is the number of steps done if the condition is true after them, else -1 minus that number.
    """
    function, replicated, last = _reference(body), settings.replicated, settings.keeps_last

    def goes_on(carry: Pytree) -> jax.Array:
        answer = truth(condition, carry)
        return answer if replicated is None else replicated.holds_everywhere(answer)

    def make(loop: LoopPrograms, span: ChunkSpan) -> JittedProgram:
        del loop

        def run(carry: Pytree, most: jax.Array, elements: Pytree) -> tuple[Pytree, jax.Array, Pytree]:
            def element_at(index: jax.Array | int) -> Pytree:
                return _jax.tree.map(lambda stacked: _jax.lax.dynamic_index_in_dim(stacked, index, keepdims=False), elements)

            step, specs = traced(settings.step_of(function()), carry, element_at(0))
            room = 1 if last else span.steps
            rows = _jax.tree.map(lambda spec: _jax.numpy.zeros((room, *spec.shape), spec.dtype), specs)

            def has_next(state: Pytree) -> jax.Array:
                done, carry, _ = state
                return (done < most) & goes_on(carry)

            def once(state: Pytree) -> Pytree:
                done, carry, rows = state
                carry, values = step(carry, element_at(done))
                row = 0 if last else done
                put = _jax.lax.dynamic_update_index_in_dim
                return done + 1, carry, _jax.tree.map(lambda rows, value: put(rows, value, row, 0), rows, values)

            done, carry, rows = _jax.lax.while_loop(has_next, once, (np.int32(0), carry, rows))
            return carry, _jax.numpy.where(goes_on(carry), done, ~done), rows

        return _jitted(run, f"while_loop_{name_of(function())}", (settings.shardings, None, None), settings)

    return _cached(body, ("while_loop", condition, *settings.identity), make)


def _jitted(run: Callable[..., Pytree], name: str, shardings: tuple[Pytree, ...], settings: LoopSettings) -> JittedProgram:
    if settings.replicated is not None:
        run = settings.replicated.replicate(run)
    run.__name__ = run.__qualname__ = name

    def program(compiler_options: dict[str, Any] | None) -> JittedProgram:
        if settings.replicated is None and shardings[0] is None and compiler_options is None and not settings.check_nans:
            return ConvolvingProgram(run, shardings=shardings)
        donated = () if settings.check_nans else (0,)
        return _jax.jit(run, donate_argnums=donated, out_shardings=shardings, compiler_options=compiler_options)

    return planned(program, settings.options)


def _reference(body: Body) -> Callable[[], Any]:
    """Returns the body. It does not keep a function alive, because that may hold large arrays."""
    return weakref.ref(body) if isinstance(body, types.FunctionType) else lambda: body


def _cached(body: Body, key: Hashable, make: Callable[[LoopPrograms, ChunkSpan], JittedProgram]) -> LoopPrograms:
    with _lock:
        if isinstance(body, types.FunctionType):
            loops = _of_functions.setdefault(body, {})
        else:
            try:
                loops = _of_others.setdefault(body, {})
            except TypeError:
                raise TypeError(
                    f"body {name_of(body)} is not hashable, so it cannot be known again: give a function that calls it"
                ) from None
            _of_others.move_to_end(body)
            while len(_of_others) > _MOST_OTHERS:
                _of_others.popitem(last=False)
        loop = loops.get(key)
        if loop is None:
            loop = loops[key] = LoopPrograms(name=f"{name_of(body)} {next(_serial)}", programs={}, make=make)
        return loop
