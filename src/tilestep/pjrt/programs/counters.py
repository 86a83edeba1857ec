"""Counters of data-dependent loops and branches: how often the body ran, which arm was taken.

A site is a loop or branch that can be counted. A program gets one more result for each counter: a 32-bit integer that is threaded
through the loops and branches around the site. Inside a manual computation (shard_map) it is one integer for each device.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilestep.pjrt.jax_private.mlir import custom_call_target, entries, func, hlo, ir, sdy, walk

SITE_ATTRIBUTE = "tilestep.site"
_FRONTEND = "mhlo.frontend_attributes"
_COUNTED = ("stablehlo.while", "stablehlo.case", "stablehlo.if")

Key = tuple[int, int]  # (site, arm)
NO_SITE: Key = (-1, 0)


@dataclass(frozen=True)
class _Counter:
    """A counter's value at the end of some block."""

    key: Key
    value: Any
    sharding: Any = None  # sdy sharding of a counter that is one integer per device


def mark_sites(module: Any) -> tuple[str, ...]:
    """Numbers the sites, by a frontend attribute that survives into HLO.

    A function with sites is copied for each of its calls, so that each site of the running program has its own number.
    Returns: the source line of each site.
    """
    has_sites = gspmd_manual = False

    def visit(operation: Any) -> None:
        nonlocal has_sites, gspmd_manual
        if operation.name in _COUNTED:
            has_sites = True
        elif custom_call_target(operation) == "SPMDFullToShardShape":
            gspmd_manual = True  # a counter could not become one integer for each device, because no region is around it

    walk(module, visit)
    if not has_sites or gspmd_manual:
        return ()
    functions = _Functions(module)
    _copy_called(functions.main.regions[0].blocks[0], functions)
    operations: list[Any] = []
    _countable(functions.main.regions[0].blocks[0], functions, operations.append)
    for site, operation in enumerate(operations):
        marks = entries(ir.DictAttr(operation.attributes[_FRONTEND])) if _FRONTEND in operation.attributes else {}
        marks[SITE_ATTRIBUTE] = ir.StringAttr.get(str(site))
        operation.attributes[_FRONTEND] = ir.DictAttr.get(marks)
    return tuple(_source_line(operation) for operation in operations)


def _source_line(operation: Any) -> str:
    """Innermost file and line of an operation's location, or its whole text where it has none."""
    text = str(operation.location)
    lines = re.findall(r'"([^"]+)":(\d+)', text)
    return f"{lines[0][0]}:{lines[0][1]}" if lines else text


def add_counters(module: Any, sites: frozenset[int], uncounted: Callable[[], Any] | None = None) -> tuple[Key, ...]:
    """Adds a result to the program for each loop of `sites`, and for each arm of each branch.

    Args: uncounted: makes one more result, a scalar int32 that counts nothing (NO_SITE).
    Returns: the (site, arm) of each new result, in order.
    """
    functions = _Functions(module)
    with module.context, ir.Location.unknown():
        more: list[_Counter] = []
        if uncounted is not None:
            with ir.InsertionPoint(_terminator(functions.main.regions[0].blocks[0])):
                more = [_Counter(NO_SITE, uncounted())]
        return tuple(counter.key for counter in _instrument_function(functions.main, functions, sites, more))


class _Functions:
    """The functions of a module by name."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.by_name = {_symbol(op.operation): op.operation for op in module.body.operations if op.operation.name == "func.func"}

    @property
    def main(self) -> Any:
        """The function with which the program begins. Raises: KeyError if there is none."""
        return self.by_name["main"]

    def called(self, call: Any) -> Any:
        """The function that a func.call calls."""
        return self.by_name[ir.FlatSymbolRefAttr(call.attributes["callee"]).value]

    def copy_for(self, call: Any) -> Any:
        """Gives a call a function of its own."""
        original = self.called(call)
        name = f"{_symbol(original)}.tilestep.{len(self.by_name)}"
        with self.module.context, call.location:
            copy = original.clone(ip=ir.InsertionPoint(self.module.body))
            copy.attributes["sym_name"] = ir.StringAttr.get(name)
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(name)
        self.by_name[name] = copy.operation
        return copy.operation


def _symbol(operation: Any) -> str:
    return ir.StringAttr(operation.attributes["sym_name"]).value


def _inner_blocks(operation: Any) -> list[Any]:
    """Blocks of an operation that a counter can leave as a result."""
    if operation.name == "stablehlo.while":
        return [operation.regions[1].blocks[0]]  # not the condition, because only its answer leaves it
    if operation.name in ("stablehlo.case", "stablehlo.if", "sdy.manual_computation"):
        return [region.blocks[0] for region in operation.regions]
    return []


def _copy_called(block: Any, functions: _Functions) -> None:
    for operation in block.operations:
        plain = operation.operation
        if plain.name == "func.call" and _has_sites(functions.called(plain), functions):
            _copy_called(functions.copy_for(plain).regions[0].blocks[0], functions)
        for inner in _inner_blocks(plain):
            _copy_called(inner, functions)


def _has_sites(function: Any, functions: _Functions) -> bool:
    """Whether a function, or one that it calls, has a site."""
    has_sites = False

    def visit(operation: Any) -> Any:
        nonlocal has_sites
        if operation.name in _COUNTED or (operation.name == "func.call" and _has_sites(functions.called(operation), functions)):
            has_sites = True
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return has_sites


def _countable(block: Any, functions: _Functions, add: Callable[[Any], None]) -> None:
    for operation in block.operations:
        plain = operation.operation
        if plain.name in _COUNTED:
            add(plain)
        if plain.name == "func.call" and _has_sites(functions.called(plain), functions):
            _countable(functions.called(plain).regions[0].blocks[0], functions, add)
        for inner in _inner_blocks(plain):
            _countable(inner, functions, add)


def _site(operation: Any, sites: frozenset[int]) -> int | None:
    if _FRONTEND not in operation.attributes:
        return None
    mark = entries(ir.DictAttr(operation.attributes[_FRONTEND])).get(SITE_ATTRIBUTE)
    site = None if mark is None else int(ir.StringAttr(mark).value)
    return site if site in sites else None


def _constant(value: int, kind: Any) -> Any:
    values: Any = np.full(tuple(ir.RankedTensorType(kind).shape), value, np.int32)
    return hlo.ConstantOp(ir.DenseElementsAttr.get(values)).result


def _scalar() -> Any:
    return ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))


def _instrument(block: Any, functions: _Functions, sites: frozenset[int]) -> list[_Counter]:
    """Adds counters to a block. Returns: those whose values are known at the block's end."""
    counters: list[_Counter] = []
    for operation in list(block.operations):
        plain = operation.operation
        instrument = _INSTRUMENT.get(plain.name)
        if instrument is not None:
            counters += instrument(plain, functions, sites)
    return counters


def _instrument_function(function: Any, functions: _Functions, sites: frozenset[int], more: Sequence[_Counter] = ()) -> list[_Counter]:
    """Makes a function return its counters behind its results, and `more` behind them."""
    block = function.regions[0].blocks[0]
    counters = [*_instrument(block, functions, sites), *more]
    if not counters:
        return []
    end = _terminator(block)
    with ir.InsertionPoint(end), end.location:
        func.ReturnOp([*end.operands, *[counter.value for counter in counters]])
    end.erase()
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    results = [*kind.results, *[counter.value.type for counter in counters]]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kind.inputs, results))
    known = (
        list(ir.ArrayAttr(function.attributes["res_attrs"]))
        if "res_attrs" in function.attributes
        else [ir.DictAttr.get({})] * len(kind.results)
    )
    added = [ir.DictAttr.get({"sdy.sharding": c.sharding} if c.sharding is not None else {}) for c in counters]
    function.attributes["res_attrs"] = ir.ArrayAttr.get([*known, *added])
    return counters


def _instrument_call(call: Any, functions: _Functions, sites: frozenset[int]) -> list[_Counter]:
    called = functions.called(call)
    if not _has_sites(called, functions):
        return []
    counters = _instrument_function(called, functions, sites)
    if not counters:
        return []
    with ir.InsertionPoint(call), call.location:
        new = ir.Operation.create(
            "func.call",
            results=[*[result.type for result in call.results], *[counter.value.type for counter in counters]],
            operands=list(call.operands),
            attributes={name: value for name, value in entries(call.attributes).items() if name != "res_attrs"},
        )
    return [_Counter(counter.key, value, counter.sharding) for counter, value in zip(counters, _replace(call, new), strict=True)]


def _terminator(block: Any) -> Any:
    return list(block.operations)[-1].operation


def _replace(old: Any, new: Any) -> list[Any]:
    """Replaces `old`'s results by `new`'s first ones. Returns: `new`'s other results."""
    count = len(old.results)
    for before, after in zip(old.results, list(new.results)[:count], strict=True):
        before.replace_all_uses_with(after)
    old.erase()
    return list(new.results)[count:]


def _instrument_while(loop: Any, functions: _Functions, sites: frozenset[int]) -> list[_Counter]:
    site = _site(loop, sites)
    inner = _instrument(loop.regions[1].blocks[0], functions, sites)
    trips = [] if site is None else [_Counter((site, 0), None)]
    added = [*trips, *inner]
    if not added:
        return []
    kinds = [_scalar() for _ in trips] + [counter.value.type for counter in inner]
    carried = len(loop.results)
    with ir.InsertionPoint(loop), loop.location:
        zeros = [_constant(0, kind) for kind in kinds]
        new = ir.Operation.create(
            "stablehlo.while",
            results=[*[result.type for result in loop.results], *kinds],
            operands=[*loop.operands, *zeros],
            attributes=entries(loop.attributes),
            regions=2,
        )
    for index in (0, 1):
        block = loop.regions[index].blocks[0]
        block.append_to(new.regions[index])
        for kind in kinds:
            block.add_argument(kind, new.location)
    body = new.regions[1].blocks[0]
    end = _terminator(body)
    before = list(body.arguments)[carried:]
    with ir.InsertionPoint(end), end.location:
        steps = [_constant(1, _scalar()) for _ in trips] + [counter.value for counter in inner]
        after = [hlo.AddOp(a, b).result for a, b in zip(before, steps, strict=True)]
        ir.Operation.create("stablehlo.return", operands=[*end.operands, *after])
    end.erase()
    values = _replace(loop, new)
    return [_Counter(counter.key, value, counter.sharding) for counter, value in zip(added, values, strict=True)]


def _instrument_branch(branch: Any, functions: _Functions, sites: frozenset[int]) -> list[_Counter]:
    site = _site(branch, sites)
    arms = range(len(branch.regions))
    inner = [_instrument(branch.regions[arm].blocks[0], functions, sites) for arm in arms]
    keys = [] if site is None else [(site, arm) for arm in arms]
    added: list[tuple[Key, Any, Any]] = [(key, _scalar(), None) for key in keys]
    added += [(counter.key, counter.value.type, counter.sharding) for counters in inner for counter in counters]
    if not added:
        return []
    with ir.InsertionPoint(branch), branch.location:
        new = ir.Operation.create(
            branch.name,
            results=[*[result.type for result in branch.results], *[kind for _, kind, _ in added]],
            operands=list(branch.operands),
            attributes=entries(branch.attributes),
            regions=len(branch.regions),
        )
    for arm in arms:
        block = branch.regions[arm].blocks[0]
        block.append_to(new.regions[arm])
        end = _terminator(block)
        by_key = {counter.key: counter.value for counter in inner[arm]}
        with ir.InsertionPoint(end), end.location:
            values = [by_key[key] if key in by_key else _constant(int(key == (site, arm)), kind) for key, kind, _ in added]
            ir.Operation.create("stablehlo.return", operands=[*end.operands, *values])
        end.erase()
    return [_Counter(key, value, sharding) for (key, _, sharding), value in zip(added, _replace(branch, new), strict=True)]


def _instrument_manual(manual: Any, functions: _Functions, sites: frozenset[int]) -> list[_Counter]:
    block = manual.regions[0].blocks[0]
    inner = _instrument(block, functions, sites)
    if not inner:
        return []
    axes = [str(axis) for axis in sdy.ManualAxesAttr(manual.attributes["manual_axes"])]
    shardings = sdy.TensorShardingPerValueAttr(manual.attributes["out_shardings"]).shardings
    inputs = sdy.TensorShardingPerValueAttr(manual.attributes["in_shardings"]).shardings
    mesh = sdy.TensorShardingAttr([*shardings, *inputs][0]).mesh_or_ref
    sizes = _axis_sizes(manual, mesh)
    devices = int(np.prod([sizes[axis] for axis in axes], dtype=np.int64))
    axis_refs = [sdy.AxisRefAttr.get(axis) for axis in axes]
    one_each: list[Any] = []  # by counter; a counter of an inner manual computation has the inner axes behind these
    for counter in inner:
        inner_axes = [] if counter.sharding is None else _axes(counter.sharding)
        one_each.append(sdy.TensorShardingAttr.get(mesh, [sdy.DimensionShardingAttr.get([*axis_refs, *inner_axes], is_closed=True)]))
    local = [_vector(_length(counter.value)) for counter in inner]
    whole = [_vector(_length(counter.value) * devices) for counter in inner]
    with ir.InsertionPoint(manual), manual.location:
        attributes = entries(manual.attributes)
        attributes["out_shardings"] = sdy.TensorShardingPerValueAttr.get([*shardings, *one_each])
        new = ir.Operation.create(
            manual.name,
            results=[*[result.type for result in manual.results], *whole],
            operands=list(manual.operands),
            attributes=attributes,
            regions=1,
        )
    block.append_to(new.regions[0])
    end = _terminator(block)
    with ir.InsertionPoint(end), end.location:
        values = [hlo.reshape(kind, counter.value) for kind, counter in zip(local, inner, strict=True)]
        ir.Operation.create("sdy.return", operands=[*end.operands, *values])
    end.erase()
    added = zip(inner, _replace(manual, new), one_each, strict=True)
    return [_Counter(counter.key, value, sharding) for counter, value, sharding in added]


def _axes(sharding: Any) -> list[Any]:
    """Mesh axes over which a counter that is one integer for each device is sharded."""
    (dimension,) = sdy.TensorShardingAttr(sharding).dimension_shardings
    return list(sdy.DimensionShardingAttr(dimension).axes)


def _length(value: Any) -> int:
    """Integers of a counter; 1 for a scalar."""
    return int(np.prod(ir.RankedTensorType(value.type).shape, dtype=np.int64))


def _vector(length: int) -> Any:
    return ir.RankedTensorType.get([length], ir.IntegerType.get_signless(32))


def _axis_sizes(operation: Any, mesh: Any) -> dict[str, int]:
    """Sizes of a mesh's axes; the mesh is given inline or by the name of an sdy.mesh in the module."""
    try:
        name = ir.FlatSymbolRefAttr(mesh).value
    except ValueError:  # not a name
        return _sizes(mesh)
    top = operation
    while top.parent is not None:
        top = top.parent.operation
    for candidate in top.regions[0].blocks[0].operations:
        if candidate.operation.name == "sdy.mesh" and ir.StringAttr(candidate.operation.attributes["sym_name"]).value == name:
            return _sizes(candidate.operation.attributes["mesh"])
    raise ValueError(f"the module has no mesh @{name}")


def _sizes(mesh: Any) -> dict[str, int]:
    axes = [sdy.MeshAxisAttr(axis) for axis in sdy.MeshAttr(mesh).axes]
    return {axis.name: axis.size for axis in axes}


_INSTRUMENT: dict[str, Callable[[Any, _Functions, frozenset[int]], list[_Counter]]] = {
    "stablehlo.while": _instrument_while,
    "stablehlo.case": _instrument_branch,
    "stablehlo.if": _instrument_branch,
    "sdy.manual_computation": _instrument_manual,
    "func.call": _instrument_call,
}
