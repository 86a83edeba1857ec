"""One program computes an optimiser's first state, where each operation outside of a program would be a program by itself.

An emulated machine has one program loaded at a time. `init` of an optimiser, called outside of `jax.jit`, starts a program or two for each
array of the state. Each of them is loaded first. So `init` is traced here, and its equations become one program. The result is the same as
without tracing: each array is on the same devices, and other leaves are the same objects.
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

_MOST_PROGRAMS: Final = 64  # in the cache

_HOST: Final = _jax.memory.Space.Host

_lock = threading.Lock()
_programs: OrderedDict[Any, Callable[..., list[Any]]] = OrderedDict()


def in_one_program(init: Callable[[Pytree], Pytree], params: Pytree, platform: str) -> Any:
    """`init(params)`, by one program on the parameters' devices if the emulator runs.

    A leaf that depends on no parameter, and is like none, is on the default device, uncommitted. Such numbers come from the host, and such
    arrays from a second program. An `init` that reads values cannot be traced, and runs operation by operation. Its side effects before
    the first read then happen twice.

    Args: platform: the parameters' platform.
    """
    leaves, structure = _jax.tree.flatten(params)
    arrays = [index for index, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    if not hints.listens(platform) or is_tracing([leaves[index] for index in arrays]):
        return init(params)
    if len({frozenset(leaves[index].sharding.device_set) for index in arrays if leaves[index].committed}) > 1:
        return init(params)  # no program takes arrays of several devices
    plan = _plan(init, params, leaves, structure, arrays, platform)
    if plan is None:
        return init(params)
    result, compute = plan
    values = iter(compute())
    return _jax.tree.unflatten(result.structure, [next(values) if isinstance(leaf, _jax.core.Tracer) else leaf for leaf in result.leaves])


@final
@dataclass(frozen=True, kw_only=True)
class _Result:
    """The tree that a traced `init` returned."""

    leaves: list[Any]  # the tree's leaves
    structure: Structure  # the tree's structure
    wholes: list[tuple[Any, Any]]  # for each leaf the path and shape of its whole array. The whole array of a part of a Shard is the Shard.

    @staticmethod
    def of(tree: Pytree) -> _Result:
        leaves, structure = _jax.tree.flatten(tree)
        nodes = _jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_shard)[0]
        wholes = [(path, getattr(node, "shape", None)) for path, node in nodes for _ in _jax.tree.leaves(node)]
        return _Result(leaves=leaves, structure=structure, wholes=wholes)

    @property
    def traced(self) -> list[int]:
        """Indices of the leaves that are computed."""
        return [index for index, leaf in enumerate(self.leaves) if isinstance(leaf, _jax.core.Tracer)]

    def sharding_like(self, known: Sequence[tuple[Any, Any]], index: int) -> Sharding | None:
        """The sharding of a leaf that is like a parameter: it has the parameter's shape, and its path ends with the parameter's.

        Args: known: paths and arrays of the parameters.
        Returns: None if the leaf is like no parameter, or like one that is committed to no device.
        """
        path, shape = self.wholes[index]
        kind = _jax.typeof(self.leaves[index])
        for known_path, leaf in known:
            is_scalar = not known_path and not shape  # any number of the state has the empty path of a tree that is one scalar
            if leaf.shape != shape or path[len(path) - len(known_path) :] != known_path or (is_scalar and leaf.dtype != kind.dtype):
                continue
            if not leaf.committed or getattr(kind, "weak_type", False):  # zeros_like makes weakly typed arrays on the default device
                return None
            sharding = leaf.sharding
            if kind.shape != shape and not isinstance(sharding, SingleDeviceSharding):  # a Shard's flat array
                sharding = NamedSharding(sharding.mesh, PartitionSpec())
            if kind.memory_space != _jax.typeof(leaf).memory_space:
                sharding = sharding.with_memory_kind("pinned_host" if kind.memory_space == _HOST else "device")
            return sharding
        return None


def _plan(
    init: Callable[[Pytree], Pytree], params: Pytree, leaves: Sequence[Any], structure: Structure, arrays: Sequence[int], platform: str
) -> tuple[_Result, Callable[[], list[Any]]] | None:
    """Traces `init`, and compiles its programs.

    Returns: the result of `init`, and a function that computes the values of its traced leaves. None for an `init` that cannot be traced,
        or a state that does not fit on a device at once.
    """
    results: list[_Result] = []

    def traced(*tracers: Any) -> list[Any]:
        traced_leaves = list(leaves)
        for index, tracer in zip(arrays, tracers, strict=True):
            traced_leaves[index] = tracer
        results[:] = [_Result.of(init(_jax.tree.unflatten(structure, traced_leaves)))]
        return [leaf for leaf in results[0].leaves if isinstance(leaf, _jax.core.Tracer)]

    args = [leaves[index] for index in arrays]
    known = [(path, leaf) for path, leaf in _jax.tree_util.tree_flatten_with_path(params)[0] if isinstance(leaf, jax.Array)]
    try:
        with traced_for(platform):
            closed = _jax.make_jaxpr(traced)(*args)
        [result] = results
        return result, _outputs(closed, args, [result.sharding_like(known, index) for index in result.traced])
    except Exception:  # `init` raises its own errors again when it runs operation by operation
        return None


def _outputs(closed: Any, args: Sequence[Any], like: Sequence[Sharding | None]) -> Callable[[], list[Any]]:
    """A function that computes the outputs of a traced function, each on the devices where single operations would leave it.

    Args: like: for each output its sharding if it depends on no argument on a device; None: the default device.
    """
    jaxpr = closed.jaxpr
    inputs = dict(zip(jaxpr.invars, args, strict=True)) | dict(zip(jaxpr.constvars, closed.consts, strict=True))
    without_program: dict[int, Callable[[], Any]] = {}  # by index of the output
    committed: dict[int, Sharding | None] = {}  # shardings by index; None: the sharding of the output's operands
    uncommitted: dict[int, Sharding | None] = {}
    for index, (atom, sharding) in enumerate(zip(jaxpr.outvars, like, strict=True)):
        if not is_variable(atom):
            without_program[index] = functools.partial(_number, atom, sharding)
        elif atom in inputs:
            without_program[index] = functools.partial(_array, inputs[atom])
        elif any(_is_committed(inputs[variable]) for variable in read_by(needed(jaxpr.eqns, [atom]), [atom])):
            committed[index] = None
        elif sharding is not None:
            committed[index] = sharding
        else:
            uncommitted[index] = None
    with_effects = bool(jaxpr.effects)  # one program has all effects, even those that no output needs
    programs: list[tuple[dict[int, Sharding | None], Callable[[], list[Any]]]] = []
    for shardings in committed, uncommitted:
        if shardings or (with_effects and shardings is uncommitted):
            atoms = [jaxpr.outvars[index] for index in shardings]
            equations = jaxpr.eqns if with_effects else needed(jaxpr.eqns, atoms)
            with_effects = False
            programs.append((shardings, _program(equations, inputs, atoms, tuple(shardings.values()))))

    def outputs() -> list[Any]:
        values = {index: value() for index, value in without_program.items()}
        for shardings, program in programs:
            values.update(zip(shardings, program(), strict=True))
        return [values[index] for index in range(len(jaxpr.outvars))]

    return outputs


def _is_committed(value: object) -> bool:
    return isinstance(value, jax.Array) and bool(value.committed)


def _number(literal: Any, sharding: Sharding | None) -> Any:
    """A scalar from the host, without a program."""
    kind = literal.aval
    value = np.asarray(literal.val, kind.dtype)
    return _jax.device_put(value.item() if kind.weak_type else value, sharding)


def _array(value: object) -> Any:
    """An argument, or a host array as an array of JAX."""
    return value if isinstance(value, jax.Array) else _jax.device_put(np.asarray(value))


def _program(
    equations: Sequence[Any], inputs: Mapping[Any, Any], outputs: Sequence[Any], shardings: tuple[Sharding | None, ...]
) -> Callable[[], list[Any]]:
    """A function that computes `outputs` by one program. A cache has the program, because an `init` of like parameters needs it again."""
    read = read_by(equations, outputs)
    args = [inputs[variable] for variable in read]

    def init(*args: Any) -> list[Any]:
        return computed(equations, dict(zip(read, args, strict=True)), outputs)

    lowered = _jax.jit(init, out_shardings=list(shardings) if any(shardings) else None).lower(*args)
    arg_shardings = tuple((leaf.sharding, leaf.committed) if isinstance(leaf, jax.Array) else None for leaf in args)
    weak = tuple(getattr(atom.aval, "weak_type", False) for atom in (*read, *outputs))  # which the text does not have
    key = lowered.as_text(), weak, arg_shardings, shardings, options()
    with _lock:
        program = _programs.get(key)
        if program is None:
            program = _programs[key] = lowered.compile()
        _programs.move_to_end(key)
        while len(_programs) > _MOST_PROGRAMS:
            _programs.popitem(last=False)
    return functools.partial(program, *args)
