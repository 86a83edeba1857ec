"""An optimiser's first state by one program, where each operation outside of a program would be one by itself.

An emulated machine has one program loaded at a time. `init` of an optimiser, called outside of `jax.jit`, starts a program or two for each
array of the state, and each of them is loaded first. So `init` is traced, and what it computes is one program. What it returns is what it
would have returned otherwise: each array where it would have been, and anything that is no array as it is.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from tilestep import hints
from tilestep.train.jax_private.compiled_call import options
from tilestep.train.jaxprs import computed, is_variable, needed, read_by
from tilestep.train.offload import is_tracing, traced_for
from tilestep.train.replicas.shards import is_shard
from tilestep.train.untyped import Pytree, Structure
from tilestep.train.untyped import jax as _jax

_MOST_PROGRAMS: Final = 64  # that are kept

_HOST: Final = _jax.memory.Space.Host

_lock = threading.Lock()
_programs: OrderedDict[Any, Callable[..., list[Any]]] = OrderedDict()


def in_one_program(init: Callable[[Pytree], Pytree], params: Pytree, platform: str) -> Any:
    """`init(params)`, by one program on the parameters' devices where an emulator listens.

    What depends on no parameter and is like none lies on the default device, uncommitted: numbers come from the host, arrays from a second
    program. An `init` that cannot be traced, since it looks at values, runs operation by operation. Then what it had done until it looked
    has been done twice.

    Args: platform: of the parameters.
    """
    leaves, structure = _jax.tree.flatten(params)
    arrays = [place for place, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    if not hints.listens(platform) or is_tracing([leaves[place] for place in arrays]):
        return init(params)
    if len({frozenset(leaves[place].sharding.device_set) for place in arrays if leaves[place].committed}) > 1:
        return init(params)  # no program takes arrays of several devices
    planned = _plan(init, params, leaves, structure, arrays, platform)
    if planned is None:
        return init(params)
    result, outputs = planned
    values = iter(outputs())
    return _jax.tree.unflatten(result.structure, [next(values) if isinstance(leaf, _jax.core.Tracer) else leaf for leaf in result.leaves])


@final
@dataclass(frozen=True, kw_only=True)
class _Result:
    """What an `init` has returned while it was traced.

    Attributes:
        leaves: of its tree, of the structure.
        wholes: of each leaf the path and shape of the array that it stands for: those of a Shard are those of the Shard.
    """

    leaves: list[Any]
    structure: Structure
    wholes: list[tuple[Any, Any]]

    @staticmethod
    def of(tree: Pytree) -> _Result:
        leaves, structure = _jax.tree.flatten(tree)
        nodes = _jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_shard)[0]
        wholes = [(path, getattr(node, "shape", None)) for path, node in nodes for _ in _jax.tree.leaves(node)]
        return _Result(leaves=leaves, structure=structure, wholes=wholes)

    @property
    def traced(self) -> list[int]:
        """Places of the leaves that are computed."""
        return [index for index, leaf in enumerate(self.leaves) if isinstance(leaf, _jax.core.Tracer)]

    def sharding_like(self, known: Sequence[tuple[Any, Any]], index: int) -> Sharding | None:
        """Where a leaf is if it is made like a parameter: of the same shape, its path that of the parameter with something before it.

        Returns: None if it is like none, or like one that is committed to no device.
        """
        path, shape = self.wholes[index]
        kind = _jax.typeof(self.leaves[index])
        for own, leaf in known:
            if leaf.shape != shape or path[len(path) - len(own) :] != own or (not own and not shape and leaf.dtype != kind.dtype):
                continue  # a tree that is one scalar has no path: any number of the state would be like it
            if not leaf.committed or getattr(kind, "weak_type", False):  # what is of a weak type, zeros_like makes on the default device
                return None
            sharding = leaf.sharding
            if kind.shape != shape and not isinstance(sharding, SingleDeviceSharding):  # flat, of a Shard
                sharding = NamedSharding(sharding.mesh, PartitionSpec())
            if kind.memory_space != _jax.typeof(leaf).memory_space:
                sharding = sharding.with_memory_kind("pinned_host" if kind.memory_space == _HOST else "device")
            return sharding
        return None


def _plan(
    init: Callable[[Pytree], Pytree], params: Pytree, leaves: Sequence[Any], structure: Structure, arrays: Sequence[int], platform: str
) -> tuple[_Result, Callable[[], list[Any]]] | None:
    """(what `init` has returned while it was traced, what gives the values of its traced leaves). The programs are compiled.

    Returns: None for an `init` that cannot be traced, or a state that does not fit on a device at once.
    """
    found: list[_Result] = []

    def traced(*own: Any) -> list[Any]:
        given = list(leaves)
        for place, leaf in zip(arrays, own, strict=True):
            given[place] = leaf
        found[:] = [_Result.of(init(_jax.tree.unflatten(structure, given)))]
        return [leaf for leaf in found[0].leaves if isinstance(leaf, _jax.core.Tracer)]

    args = [leaves[place] for place in arrays]
    known = [(path, leaf) for path, leaf in _jax.tree_util.tree_flatten_with_path(params)[0] if isinstance(leaf, jax.Array)]
    try:
        with traced_for(platform):
            closed = _jax.make_jaxpr(traced)(*args)
        [result] = found
        return result, _outputs(closed, args, [result.sharding_like(known, index) for index in result.traced])
    except Exception:  # whatever else is wrong, `init` raises again where it is called operation by operation
        return None


def _outputs(closed: Any, args: Sequence[Any], like: Sequence[Sharding | None]) -> Callable[[], list[Any]]:
    """What gives the values of what is traced, of these arguments: each where it would be if every operation ran by itself.

    Args: like: of each output, where it is if it depends on no argument on a device; None: on the default device.
    """
    jaxpr = closed.jaxpr
    given = dict(zip(jaxpr.invars, args, strict=True)) | dict(zip(jaxpr.constvars, closed.consts, strict=True))
    there: dict[int, Callable[[], Any]] = {}  # places of outputs that take no program
    committed: dict[int, Sharding | None] = {}  # of others, and where they are; None: with what they are made of
    uncommitted: dict[int, Sharding | None] = {}
    for index, (atom, sharding) in enumerate(zip(jaxpr.outvars, like, strict=True)):
        if not is_variable(atom):
            there[index] = functools.partial(_number, atom, sharding)
        elif atom in given:
            there[index] = functools.partial(_array, given[atom])
        elif any(_is_committed(given[variable]) for variable in read_by(needed(jaxpr.eqns, [atom]), [atom])):
            committed[index] = None
        elif sharding is not None:
            committed[index] = sharding
        else:
            uncommitted[index] = None
    with_effects = bool(jaxpr.effects)  # which come once, whether or not an output needs them
    programs: list[tuple[dict[int, Sharding | None], Callable[[], list[Any]]]] = []
    for chosen in committed, uncommitted:
        if chosen or (with_effects and chosen is uncommitted):
            atoms = [jaxpr.outvars[index] for index in chosen]
            equations = jaxpr.eqns if with_effects else needed(jaxpr.eqns, atoms)
            with_effects = False
            programs.append((chosen, _program(equations, given, atoms, tuple(chosen.values()))))

    def outputs() -> list[Any]:
        values = {index: value() for index, value in there.items()}
        for chosen, program in programs:
            values.update(zip(chosen, program(), strict=True))
        return [values[index] for index in range(len(jaxpr.outvars))]

    return outputs


def _is_committed(value: object) -> bool:
    return isinstance(value, jax.Array) and bool(value.committed)


def _number(literal: Any, sharding: Sharding | None) -> Any:
    """A scalar from the host, which takes no program."""
    kind = literal.aval
    value = np.asarray(literal.val, kind.dtype)
    return _jax.device_put(value.item() if kind.weak_type else value, sharding)


def _array(value: object) -> Any:
    """An argument, or an array of the host that became one of JAX's."""
    return value if isinstance(value, jax.Array) else _jax.device_put(np.asarray(value))


def _program(
    equations: Sequence[Any], given: Mapping[Any, Any], outputs: Sequence[Any], shardings: tuple[Sharding | None, ...]
) -> Callable[[], list[Any]]:
    """What runs one program for the values of `outputs`. The program is kept, since the same `init` of like parameters is the same one."""
    read = read_by(equations, outputs)
    args = [given[variable] for variable in read]

    def init(*args: Any) -> list[Any]:
        return computed(equations, dict(zip(read, args, strict=True)), outputs)

    lowered = _jax.jit(init, out_shardings=list(shardings) if any(shardings) else None).lower(*args)
    places = tuple((leaf.sharding, leaf.committed) if isinstance(leaf, jax.Array) else None for leaf in args)
    key = lowered.as_text(), places, shardings, options()
    with _lock:
        program = _programs.get(key)
        if program is None:
            program = _programs[key] = lowered.compile()
        _programs.move_to_end(key)
        while len(_programs) > _MOST_PROGRAMS:
            _programs.popitem(last=False)
    return functools.partial(program, *args)
