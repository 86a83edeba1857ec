"""Reads and changes MLIR modules, and what they say of their arguments and results, with the few functions of JAX's bindings."""

import io
from collections.abc import Callable, Mapping
from typing import Any

from jax._src.lib.mlir import ir as ir
from jax._src.lib.mlir.dialects import func as func
from jax._src.lib.mlir.dialects import hlo as hlo
from jax._src.lib.mlir.dialects import sdy as sdy

_FRONTEND = "mhlo.frontend_attributes"
_CONFIGS = ("mhlo.backend_config", "backend_config")


def walk(module: Any, visit: Callable[[Any], None]) -> None:
    """Calls `visit` with every operation, inner ones first."""

    def step(operation: Any) -> Any:
        visit(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(step)


def has_operation(module: Any, name: str) -> bool:
    """Whether a module has an operation of that name, such as 'stablehlo.rng'."""
    found = False

    def step(operation: Any) -> Any:
        nonlocal found
        found = operation.name == name
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(step)
    return found


def custom_call_target(operation: Any) -> str | None:
    """The function that a custom call calls; None for any other operation."""
    if operation.name != "stablehlo.custom_call":
        return None
    return ir.StringAttr(operation.attributes["call_target_name"]).value


def retarget(module: Any, target: str, new_target: Callable[[Mapping[str, str]], str]) -> Callable[[], None]:
    """Changes the target of custom calls, and makes them pure functions without frontend attributes.

    Args: new_target: gives the new target for the frontend attributes, as they are printed.
    Returns: a function that undoes this.
    """
    changed: list[tuple[Any, dict[str, Any]]] = []

    def visit(operation: Any) -> None:
        if custom_call_target(operation) != target:
            return
        before = entries(operation.attributes)
        changed.append((operation, before))
        marks = entries(ir.DictAttr(before.get(_FRONTEND, ir.DictAttr.get({}))))
        name = new_target({name: str(mark) for name, mark in marks.items()})
        operation.attributes["call_target_name"] = ir.StringAttr.get(name)
        operation.attributes["has_side_effect"] = ir.BoolAttr.get(False)
        if _FRONTEND in before:
            del operation.attributes[_FRONTEND]

    def restore() -> None:
        for operation, before in changed:
            for name, attribute in before.items():
                operation.attributes[name] = attribute

    walk(module, visit)
    return restore


def attribute_int(operation: Any, name: str) -> int:
    """An integer of a custom call's configuration. Raises: KeyError if it has none of that name."""
    for key in _CONFIGS:
        if key in operation.attributes:
            return ir.IntegerAttr(ir.DictAttr(operation.attributes[key])[name]).value
    raise KeyError(name)


def set_attribute_int(operation: Any, name: str, value: int) -> None:
    """Replaces an unsigned 64-bit integer of a custom call's configuration."""
    for key in _CONFIGS:
        if key in operation.attributes:
            config = entries(ir.DictAttr(operation.attributes[key]))
            config[name] = ir.IntegerAttr.get(ir.IntegerType.get_unsigned(64), value)
            operation.attributes[key] = ir.DictAttr.get(config)
            return
    raise KeyError(name)


def entries(attributes: Any) -> dict[str, Any]:
    """The attributes of an operation, or of a dictionary attribute, by name."""
    by_name: dict[str, Any] = {}
    for entry in attributes:  # names or (name, attribute) pairs, by the version of the bindings
        name = entry if isinstance(entry, str) else entry.name
        by_name[name] = attributes[name]
    return by_name


def text_without_locations(module: Any) -> str:
    """The module as text, without lines of the user's source."""
    text: str = module.operation.get_asm(enable_debug_info=False)
    return text


def bytecode(module: Any) -> bytes:
    """The module as MLIR's bytecode, with lines of the user's source."""
    output = io.BytesIO()
    module.operation.write_bytecode(file=output)
    return output.getvalue()


def num_devices(module: Any) -> tuple[int, int]:
    """(replicas, partitions) that the module is for."""
    attributes = module.operation.attributes
    replicas, partitions = (
        ir.IntegerAttr(attributes[name]).value if name in attributes else 1 for name in ("mhlo.num_replicas", "mhlo.num_partitions")
    )
    return replicas, partitions


def module_name(module: Any) -> str:
    """The module's symbol name, 'main' where it has none."""
    attributes = module.operation.attributes
    return ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else "main"


def set_module_name(module: Any, name: str) -> None:
    """Renames the module."""
    module.operation.attributes["sym_name"] = ir.StringAttr.get(name)


_ALIAS, _DONOR = "tf.aliasing_output", "jax.buffer_donor"
_SHARDINGS = ("mhlo.sharding", "sdy.sharding")


def drop_tokens(module: Any) -> None:
    """Makes the tokens of ordered effects in the module itself, so that its arguments and results are those of the function."""
    main = _main(module)
    kind, block = _type(main), main.regions[0].blocks[0]
    tokens = [number for number, each in enumerate(kind.inputs) if _is_token(each)]
    given = [number for number, each in enumerate(kind.results) if _is_token(each)]
    if not tokens and not given:
        return
    inputs = [each for number, each in enumerate(kind.inputs) if number not in tokens]
    results = [each for number, each in enumerate(kind.results) if number not in given]
    marks = [mark for number, mark in enumerate(_of_arguments(main)) if number not in tokens]
    of_results = [mark for number, mark in enumerate(_of_results(main)) if number not in given]
    end = list(block.operations)[-1].operation
    with module.context, ir.Location.unknown():
        for number in reversed(tokens):
            argument = block.arguments[number]
            with ir.InsertionPoint.at_block_begin(block):
                first = ir.Operation.create("stablehlo.after_all", results=[argument.type])
            argument.replace_all_uses_with(first.results[0])
            block.erase_argument(number)
        with ir.InsertionPoint(end):
            func.ReturnOp([value for number, value in enumerate(end.operands) if number not in given])
        end.erase()
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
        _put(main, "arg_attrs", marks)
        _put(main, "res_attrs", of_results)


def _is_token(kind: Any) -> bool:
    return str(kind) == "!stablehlo.token"


def keep_arguments(module: Any) -> None:
    """Makes each argument one more result, which takes over its memory. Nothing else is donated."""
    main = _main(module)
    marks, known = _of_arguments(main), _of_results(main)
    kind, block = _type(main), main.regions[0].blocks[0]
    end = list(block.operations)[-1].operation
    for mark in marks:
        mark.pop(_DONOR, None)
    with module.context, ir.Location.unknown():
        with ir.InsertionPoint(end):
            func.ReturnOp([*end.operands, *block.arguments])
        end.erase()
        for number, mark in enumerate(marks, len(kind.results)):
            mark[_ALIAS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kind.inputs, [*kind.results, *kind.inputs]))
        _put(main, "arg_attrs", marks)
        _put(main, "res_attrs", [*known, *map(_shardings, marks)])


def _shardings(marks: Mapping[str, Any]) -> dict[str, Any]:
    return {name: mark for name, mark in marks.items() if name in _SHARDINGS}


def _main(module: Any) -> Any:
    """The function with which the module begins. Raises: KeyError if there is none."""
    for operation in module.body.operations:
        plain = operation.operation
        if plain.name == "func.func" and ir.StringAttr(plain.attributes["sym_name"]).value == "main":
            return plain
    raise KeyError("main")


def _type(main: Any) -> Any:
    return ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)


def _of_arguments(main: Any) -> list[dict[str, Any]]:
    return _marks(main, "arg_attrs", len(_type(main).inputs))


def _of_results(main: Any) -> list[dict[str, Any]]:
    return _marks(main, "res_attrs", len(_type(main).results))


def _marks(main: Any, name: str, count: int) -> list[dict[str, Any]]:
    if name not in main.attributes:
        return [{} for _ in range(count)]
    return [entries(ir.DictAttr(each)) for each in ir.ArrayAttr(main.attributes[name])]


def _put(main: Any, name: str, marks: list[dict[str, Any]]) -> None:
    main.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in marks])
