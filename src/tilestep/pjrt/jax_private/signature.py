"""Changes what a module says about its arguments and results: which stay on the device, and which are in the host's memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tilestep.pjrt.jax_private.dialects import func, ir
from tilestep.pjrt.jax_private.mlir import entries

_ALIAS, _DONOR, _MEMORY = "tf.aliasing_output", "jax.buffer_donor", "mhlo.memory_kind"
_PLACEMENT, _ON_HOST = "annotate_device_placement", "pinned_host"
_SHARDINGS = ("mhlo.sharding", "sdy.sharding")


def num_results(module: Any) -> int:
    """How many arrays the module gives."""
    return len(_type(_main(module)).results)


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


def keep_arguments(module: Any, results: Mapping[int, int | None]) -> None:
    """Lets a result take over the memory of each of some arguments. No other argument is donated.

    Args: results: argument -> the result that replaces it; None: none does, so the argument itself becomes one more result.
    """
    main = _main(module)
    marks = _of_arguments(main)
    for mark in marks:
        for name in (_ALIAS, _DONOR):
            mark.pop(name, None)
    unchanged = [argument for argument, result in results.items() if result is None]
    behind = {argument: num_results(module) + place for place, argument in enumerate(unchanged)}
    with module.context, ir.Location.unknown():
        for argument, result in results.items():
            number = behind[argument] if result is None else result
            marks[argument][_ALIAS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)
        _put(main, "arg_attrs", marks)
        _return_too(main, unchanged, marks)


def add_arguments(module: Any, results: Sequence[int]) -> None:
    """Adds an unused argument behind the others for each of some results, of its shape."""
    if not results:
        return
    main = _main(module)
    kind, marks, of_results = _type(main), _of_arguments(main), _of_results(main)
    added = [kind.results[result] for result in results]
    with module.context, ir.Location.unknown() as place:
        for each in added:
            main.regions[0].blocks[0].add_argument(each, place)
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([*kind.inputs, *added], kind.results))
        _put(main, "arg_attrs", [*marks, *(_shardings(of_results[result]) for result in results)])


def place_on_host(module: Any, arguments: Collection[int], results: Collection[int]) -> None:
    """Says that some arguments and results are in pinned_host, to which results move as `jax.device_put` would move them."""
    main = _main(module)
    _move(main, results)
    with module.context, ir.Location.unknown():
        for name, marks, numbers in (("arg_attrs", _of_arguments(main), arguments), ("res_attrs", _of_results(main), results)):
            for number in numbers:
                marks[number][_MEMORY] = ir.StringAttr.get(_ON_HOST)
            _put(main, name, marks)


def _move(main: Any, results: Collection[int]) -> None:
    end = list(main.regions[0].blocks[0].operations)[-1].operation
    with main.context, end.location, ir.InsertionPoint(end):
        for number in results:
            moved = ir.Operation.create(
                "stablehlo.custom_call",
                results=[end.operands[number].type],
                operands=[end.operands[number]],
                attributes={
                    "call_target_name": ir.StringAttr.get(_PLACEMENT),
                    "has_side_effect": ir.BoolAttr.get(True),
                    "mhlo.frontend_attributes": ir.DictAttr.get({"_xla_buffer_placement": ir.StringAttr.get(_ON_HOST)}),
                },
            )
            end.operands[number] = moved.result


def _return_too(main: Any, arguments: Collection[int], marks: list[dict[str, Any]]) -> None:
    """Adds arguments to the results of a function."""
    if not arguments:
        return
    block = main.regions[0].blocks[0]
    known = _of_results(main)
    end = list(block.operations)[-1].operation
    added = [block.arguments[argument] for argument in arguments]
    with ir.InsertionPoint(end):
        func.ReturnOp([*end.operands, *added])
    end.erase()
    kind = _type(main)
    results = [*kind.results, *[value.type for value in added]]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kind.inputs, results))
    _put(main, "res_attrs", [*known, *(_shardings(marks[argument]) for argument in arguments)])


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
