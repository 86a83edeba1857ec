"""The jitted programs of loops, kept so that the same loop called again is neither traced nor compiled."""

from __future__ import annotations

import itertools
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np

from tilestep.train.body import Body, name_of, step_of, traced, truth
from tilestep.train.outfeed_queue import OutfeedQueue
from tilestep.train.spread import Spread

Program = Callable[..., Any]

_MOST_OTHERS: Final = 128  # bodies that are no plain functions, which are kept alive

_jax: Any = jax  # whose types say nothing of what is in a tree
_serial = itertools.count(1)
_lock = threading.Lock()
_of_functions: weakref.WeakKeyDictionary[Any, dict[Hashable, Loop]] = weakref.WeakKeyDictionary()
_of_others: OrderedDict[Hashable, dict[Hashable, Loop]] = OrderedDict()


@dataclass(frozen=True, kw_only=True)
class Loop:
    """One loop: the programs of its chunks by number of steps, and a name that no other loop has."""

    name: str
    programs: dict[int, Program]
    make: Callable[[int], Program]

    def program(self, steps: int) -> Program:
        """That of a chunk of `steps` steps."""
        program = self.programs.get(steps)
        if program is None:
            program = self.programs[steps] = self.make(steps)
        return program


def repeat_loop(
    body: Body, *, key: Hashable, infed: bool, outfeed: OutfeedQueue | None, shardings: Any, spread: Spread | None = None
) -> Loop:
    """The loop of `repeat`. Its programs are (carry, stacked elements) -> (carry, stacked values of the outfeed).

    Args:
        key: what else two loops of one body may differ in.
        shardings: a tree of the carry's shardings.
        spread: over which replicas.
    """
    here, whose = _reference(body), None if outfeed is None else weakref.ref(outfeed)
    last = outfeed is not None and outfeed.mode == "last"

    def make(steps: int) -> Program:
        def run(carry: Any, elements: Any) -> tuple[Any, Any]:
            step = step_of(here(), infed=infed, outfeed=None if whose is None else whose())
            if not last:
                return _jax.lax.scan(step, carry, elements, length=steps)
            first = _jax.tree.map(lambda stacked: stacked[0], elements)
            step, kinds = traced(step, carry, first)
            nothing = _jax.tree.map(lambda kind: _jax.numpy.zeros(kind.shape, kind.dtype), kinds)
            (carry, values), _ = _jax.lax.scan(
                lambda state, element: (step(state[0], element), None), (carry, nothing), elements, length=steps
            )
            return carry, _jax.tree.map(lambda value: value[None], values)

        return _jitted(run, f"repeat_{name_of(here())}", (shardings, None), spread)

    return _kept(body, ("repeat", infed, whose, key, spread), make)


def while_loop_loop(
    body: Body,
    condition: Callable[[Any], Any],
    *,
    key: Hashable,
    infed: bool,
    outfeed: OutfeedQueue | None,
    shardings: Any,
    spread: Spread | None = None,
) -> Loop:
    """The loop of `while_loop`. Its programs are (carry, most steps, stacked elements) -> (carry, status, stacked values).

    `status` is how many steps were done if the condition is true after them, else -1 minus that.
    """
    here, whose = _reference(body), None if outfeed is None else weakref.ref(outfeed)
    last = outfeed is not None and outfeed.mode == "last"

    def goes_on(carry: Any) -> Any:
        answer = truth(condition, carry)
        return answer if spread is None else spread.everywhere(_jax.numpy.asarray(answer))

    def make(steps: int) -> Program:
        def run(carry: Any, most: Any, elements: Any) -> tuple[Any, Any, Any]:
            def element_at(index: Any) -> Any:
                return _jax.tree.map(lambda stacked: _jax.lax.dynamic_index_in_dim(stacked, index, keepdims=False), elements)

            queue = None if whose is None else whose()
            step, kinds = traced(step_of(here(), infed=infed, outfeed=queue), carry, element_at(0))
            room = 1 if last else steps
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

    return _kept(body, ("while_loop", condition, infed, whose, key, spread), make)


def _jitted(run: Program, name: str, shardings: Any, spread: Spread | None) -> Program:
    if spread is not None:
        run = spread.over(run)
    run.__name__ = run.__qualname__ = name
    return _jax.jit(run, donate_argnums=0, out_shardings=shardings)


def _reference(body: Body) -> Callable[[], Any]:
    """Gives the body; does not keep a function alive, which may hold large arrays."""
    return weakref.ref(body) if isinstance(body, types.FunctionType) else lambda: body


def _kept(body: Body, key: Hashable, make: Callable[[int], Program]) -> Loop:
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
