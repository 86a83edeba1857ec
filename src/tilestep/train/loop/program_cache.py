"""The jitted programs of loops, kept so that the same loop called again is neither traced nor compiled."""

from __future__ import annotations

import itertools
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from tilestep.train.calling import Body, Step, name_of
from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.gradients.recompute import Recompute, in_loop
from tilestep.train.loop import update_pattern
from tilestep.train.loop.replicated import Spread
from tilestep.train.loop.step import step_of, traced, truth
from tilestep.train.loop.tiny_steps import Chosen, scan
from tilestep.train.untyped import jax as _jax


class Program(Protocol):
    """A jitted one."""

    def __call__(self, *args: Any) -> Any:
        """Runs it."""
        ...

    def trace(self, *args: Any) -> Any:
        """What `jax.jit`'s `trace` says."""
        ...


FIRST_IN_FLIGHT: Final = 4  # chunks, until it is known how long one takes

_MOST_OTHERS: Final = 128  # bodies that are no plain functions, which are kept alive

_serial = itertools.count(1)
_lock = threading.Lock()
_of_functions: weakref.WeakKeyDictionary[Any, dict[Hashable, Loop]] = weakref.WeakKeyDictionary()
_of_others: OrderedDict[Hashable, dict[Hashable, Loop]] = OrderedDict()


class Span(NamedTuple):
    """What a chunk's program does: `steps` steps.

    Attributes:
        every: steps for each update, if it is known which steps of the chunk update; else None, and a step that might finds out by itself.
        first: number of the chunk's first step that updates, counted from 1; None: none of them does.
    """

    steps: int
    every: int | None = None
    first: int | None = None


@dataclass(kw_only=True)
class Loop:
    """One loop: the programs of its chunks, and a name that no other loop has.

    Attributes:
        unsteady: whether its body has turned out not to add one microbatch for each step.
        in_flight: chunks that are started before the device is waited for; as many as turned out to keep it busy.
    """

    name: str
    programs: dict[Span, Program]
    make: Callable[[Loop, Span], Program]
    unsteady: bool = False
    in_flight: int = FIRST_IN_FLIGHT

    def program(self, span: Span) -> Program:
        """That of a chunk."""
        program = self.programs.get(span)
        if program is None:
            program = self.programs[span] = self.make(self, span)
        return program


def repeat_loop(
    body: Body,
    *,
    key: Hashable,
    infed: bool,
    outfeed: OutfeedQueue | None,
    shardings: Any,
    spread: Spread | None = None,
    recompute: Recompute = None,
) -> Loop:
    """The loop of `repeat`. Its programs are (carry, stacked elements) -> (carry, stacked values of the outfeed).

    Args:
        key: what else two loops of one body may differ in.
        shardings: a tree of the carry's shardings.
        spread: over which replicas.
        recompute: what `recomputed` functions in the body do.
    """
    here, whose = _reference(body), None if outfeed is None else weakref.ref(outfeed)
    last = outfeed is not None and outfeed.mode == "last"

    def make(loop: Loop, span: Span) -> Program:
        def step(body: Body) -> Step:
            return step_of(in_loop(body, recompute), infed=infed, outfeed=None if whose is None else whose())

        def run(carry: Any, elements: Any) -> tuple[Any, Any]:
            if span.every is not None:
                try:
                    steps = (step(update_pattern.paced(here(), "between")), step(update_pattern.paced(here(), "last")))
                    return _scanned(steps, carry, elements, span, last_only=last)
                except (TypeError, ValueError):  # the body does not add one microbatch a step, or is wrong anyway, which it tells below
                    loop.unsteady = True
            return _scanned((step(here()),), carry, elements, Span(steps=span.steps), last_only=last)

        return _jitted(run, f"repeat_{name_of(here())}", (shardings, None), spread)

    return _kept(body, ("repeat", infed, whose, key, spread, recompute), make)


def _scanned(steps: tuple[Step, ...], carry: Any, elements: Any, span: Span, *, last_only: bool) -> tuple[Any, Any]:
    """(carry, stacked values) after the chunk's steps. Args: steps: the one, or those between updates and before one."""

    def scanned(steps: tuple[Step, ...], carry: Any) -> tuple[Any, Any]:
        if span.every is None:
            return scan(steps[0], carry, elements, length=span.steps)
        between, last = steps
        return update_pattern.scan(between, last, carry, elements, steps=span.steps, count=span.every, first=span.first)

    if not last_only:
        return scanned(steps, carry)
    first = _jax.tree.map(lambda stacked: stacked[0], elements)
    once, kinds = traced(steps[0], carry, first)
    nothing = _jax.tree.map(lambda kind: _jax.numpy.zeros(kind.shape, kind.dtype), kinds)

    def newest(step: Step) -> Step:
        return lambda state, element: (step(state[0], element), None)

    (carry, values), _ = scanned(tuple(map(newest, (once, *steps[1:]))), (carry, nothing))
    return carry, _jax.tree.map(lambda value: value[None], values)


def while_loop_loop(
    body: Body,
    condition: Callable[[Any], Any],
    *,
    key: Hashable,
    infed: bool,
    outfeed: OutfeedQueue | None,
    shardings: Any,
    spread: Spread | None = None,
    recompute: Recompute = None,
) -> Loop:
    """The loop of `while_loop`. Its programs are (carry, most steps, stacked elements) -> (carry, status, stacked values).

    `status` is how many steps were done if the condition is true after them, else -1 minus that.
    """
    here, whose = _reference(body), None if outfeed is None else weakref.ref(outfeed)
    last = outfeed is not None and outfeed.mode == "last"

    def goes_on(carry: Any) -> Any:
        answer = truth(condition, carry)
        return answer if spread is None else spread.everywhere(_jax.numpy.asarray(answer))

    def make(loop: Loop, span: Span) -> Program:
        del loop

        def run(carry: Any, most: Any, elements: Any) -> tuple[Any, Any, Any]:
            def element_at(index: Any) -> Any:
                return _jax.tree.map(lambda stacked: _jax.lax.dynamic_index_in_dim(stacked, index, keepdims=False), elements)

            queue = None if whose is None else whose()
            step, kinds = traced(step_of(in_loop(here(), recompute), infed=infed, outfeed=queue), carry, element_at(0))
            room = 1 if last else span.steps
            rows = _jax.tree.map(lambda kind: _jax.numpy.zeros((room, *kind.shape), kind.dtype), kinds)

            def again(state: Any) -> Any:
                done, carry, _ = state
                return (done < most) & goes_on(carry)

            def once(state: Any) -> Any:
                done, carry, rows = state
                carry, values = step(carry, element_at(done))
                row = 0 if last else done
                put = _jax.lax.dynamic_update_index_in_dim
                return done + 1, carry, _jax.tree.map(lambda rows, value: put(rows, value, row, 0), rows, values)

            done, carry, rows = _jax.lax.while_loop(again, once, (np.int32(0), carry, rows))
            return carry, _jax.numpy.where(goes_on(carry), done, ~done), rows

        return _jitted(run, f"while_loop_{name_of(here())}", (shardings, None, None), spread)

    return _kept(body, ("while_loop", condition, infed, whose, key, spread, recompute), make)


def _jitted(run: Callable[..., Any], name: str, shardings: Any, spread: Spread | None) -> Program:
    if spread is not None:
        run = spread.over(run)
    run.__name__ = run.__qualname__ = name
    if spread is None and shardings[0] is None:
        return Chosen(run, shardings=shardings)
    return _jax.jit(run, donate_argnums=0, out_shardings=shardings)


def _reference(body: Body) -> Callable[[], Any]:
    """Gives the body; does not keep a function alive, which may hold large arrays."""
    return weakref.ref(body) if isinstance(body, types.FunctionType) else lambda: body


def _kept(body: Body, key: Hashable, make: Callable[[Loop, Span], Program]) -> Loop:
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
            loop = loops[key] = Loop(name=f"{name_of(body)} {next(_serial)}", programs={}, make=make)
        return loop
