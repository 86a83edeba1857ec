"""Changes what a module says about its arguments and results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilestep.pjrt.jax_private.dialects import func, ir
from tilestep.pjrt.jax_private.mlir import entries

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
