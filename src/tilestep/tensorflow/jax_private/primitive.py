"""A program that XLA has lowered, as one JAX primitive: StableHLO that becomes a part of the program around it, on any platform.

Inside of it, custom calls whose targets begin with MARKER are markers: JAX code takes their place. It is traced where the primitive is
bound, so that it knows the replicas around it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jax._src.lib import _jax
from jax.extend.core import Primitive
from jax.interpreters import mlir

from tilestep.train.untyped import jax, jnp

_mlir: Any = mlir  # JAX's types don't tell what these modules hold
_ir: Any = _mlir.ir
_xla: Any = _jax
MARKER: Final = "tilestep."  # markers' targets begin with it
_COPY: Final = "mhlo.copy"  # XLA puts it where a variable is written; only XLA:CPU knows it
_CUSTOM_CALL: Final = "stablehlo.custom_call"
_ALIASES: Final = "mhlo.input_output_alias"
_OTHER_DTYPES: Final = {"i1": np.dtype(bool), "bf16": jnp.dtype("bfloat16"), "complex<f32>": np.dtype("complex64")}
_DTYPE_KINDS: Final = {"f": "float", "i": "int", "ui": "uint"}  # MLIR's dtypes add the number of bits

Spec = Any  # a jax.core.ShapedArray
Handler = Callable[..., Any]  # JAX code of a marker: operands -> its result
Line = tuple[str, int]  # file, line


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """A part of a TensorFlow graph in StableHLO, as a JAX function of tensors and variables."""

    module: bytes  # its bytecode, whose function "main" is the program
    operands: Sequence[Spec]  # with the dtypes inside of it, which may have 64 bits
    results: Sequence[Spec]
    markers: Sequence[tuple[Handler, Sequence[Spec]]]  # (its code, operands) of those in it, in the order of the module
    variables: Sequence[str]  # names of those that it takes, in the order of its further operands
    written: Mapping[str, int]  # name of each variable that it changes -> index of the result with the new value
    num_outputs: int  # results that are no variables

    def __call__(self, values: Sequence[Any], variables: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """(outputs, the new values of variables that it changes), with the dtypes that JAX has for them.

        Args: values: its inputs. variables: by their names; it may have more.
        """
        operands = [*values, *(variables[name] for name in self.variables)]
        given = [jnp.asarray(operand, spec.dtype) for operand, spec in zip(operands, map(_outside, self.operands), strict=True)]
        handled = tuple(jax.make_jaxpr(handler)(*specs) for handler, specs in self.markers)
        results = _program_p.bind(*given, program=self, handled=handled)
        return list(results[: self.num_outputs]), {name: results[index] for name, index in self.written.items()}


def from_hlo(
    hlo: bytes, line_of: Callable[[str], Line | None], handler_of: Callable[[str], Handler], variables: Sequence[str], num_outputs: int
) -> Program:
    """A serialised HLO module as a program. Args: line_of: the line that made a node, by its name. handler_of: a marker's code."""
    with _mlir.make_ir_context():
        module = _ir.Module.parse(_xla.mlir.hlo_to_stablehlo(hlo))
        for operation in list(_operations(module.operation)):
            if operation.name == _COPY:
                operation.results[0].replace_all_uses_with(operation.operands[0])
                operation.erase()
            else:
                operation.location = _with_line(operation.location, line_of)
        main = _ir.SymbolTable(module.operation)["main"]
        first = len(main.type.inputs) - len(variables)
        return Program(
            module=_mlir.module_to_bytecode(module),
            operands=list(map(_spec, main.type.inputs)),
            results=list(map(_spec, main.type.results)),
            markers=[(handler_of(_target(call)), _operands(call)) for call in _marker_calls(module.operation)],
            variables=variables,
            written={variables[operand - first]: result for result, operand in _aliases(module) if operand >= first},
            num_outputs=num_outputs,
        )


def _aliases(module: Any) -> Iterator[tuple[int, int]]:
    """(index of a result, index of the operand of which it is the new value)."""
    attributes = module.operation.attributes
    if _ALIASES in attributes:
        for alias in map(_ir.DictAttr, _ir.ArrayAttr(attributes[_ALIASES])):
            index = list(_ir.DenseI64ArrayAttr(alias["output_index"]))
            yield (index[0] if index else 0), _ir.IntegerAttr(_ir.DictAttr(alias["alias"])["parameter_number"]).value


def _operations(operation: Any) -> Iterator[Any]:
    """All operations inside of one, those of inner regions too."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _operations(inner.operation)


def _marker_calls(operation: Any) -> list[Any]:
    return [each for each in _operations(operation) if each.name == _CUSTOM_CALL and _target(each).startswith(MARKER)]


def _target(call: Any) -> str:
    return str(_ir.StringAttr(call.attributes["call_target_name"]).value)


def _operands(call: Any) -> list[Spec]:
    return [_outside(_spec(value.type)) for value in call.operands]


def _with_line(location: Any, line_of: Callable[[str], Line | None]) -> Any:
    """XLA's location is fused of the node's name and a line of TensorFlow: the line of the program takes the latter's place."""
    parts = getattr(location, "locations", [location])
    name = next((part.name_str for part in parts if hasattr(part, "name_str")), None)
    if name is None:
        return location
    line = line_of(name)
    return _ir.Location.name(name, None if line is None else _ir.Location.file(line[0], line[1], 0))


def _spec(kind: Any) -> Spec:
    ranked = _ir.RankedTensorType(kind)
    name = str(ranked.element_type)
    bits = name.lstrip("fui")
    dtype = _OTHER_DTYPES.get(name) or np.dtype(_DTYPE_KINDS[name.removesuffix(bits)] + bits)
    return jax.core.ShapedArray(tuple(ranked.shape), dtype)


def _kind(spec: Spec) -> Any:
    return _ir.RankedTensorType.get(spec.shape, _mlir.dtype_to_ir_type(spec.dtype))


def _outside(spec: Spec) -> Spec:
    """The same with the dtype that JAX has for it: 64 bits are 32 unless `jax_enable_x64` is set."""
    return jax.core.ShapedArray(spec.shape, jax.dtypes.canonicalize_dtype(spec.dtype))


_program_p: Any = Primitive("tensorflow")
_program_p.multiple_results = True


@_program_p.def_abstract_eval
def _results(*operands: Any, program: Program, handled: tuple[Any, ...]) -> list[Spec]:
    return list(map(_outside, program.results))


def _lower(ctx: Any, *operands: Any, program: Program, handled: tuple[Any, ...]) -> list[Any]:
    body = ctx.module_context.module.body
    before = {str(each.operation.attributes["sym_name"]) for each in body.operations}
    part = _ir.Module.parse(program.module)
    kind = _ir.SymbolTable(part.operation)["main"].type
    name = _mlir.merge_mlir_modules(ctx.module_context.module, "tensorflow", part, dst_symtab=ctx.module_context.symbol_table)
    if handled:
        merged = [each for each in body.operations if str(each.operation.attributes["sym_name"]) not in before]
        for call, jaxpr in zip([call for each in merged for call in _marker_calls(each.operation)], handled, strict=True):
            _replace(ctx, call, jaxpr)
    call = _ir.Operation.create(
        "func.call",
        results=kind.results,
        operands=_converted(operands, kind.inputs),
        attributes={"callee": _ir.FlatSymbolRefAttr.get(name)},
    )
    return _converted(call.results, list(map(_kind, ctx.avals_out)))


def _replace(ctx: Any, call: Any, jaxpr: Any) -> None:
    """Puts the code of a marker in the place of its call."""
    with _ir.InsertionPoint(call), call.location:
        around = ctx.replace(primitive=None, avals_in=_operands(call), avals_out=list(jaxpr.out_avals))
        given = _converted(call.operands, list(map(_kind, _operands(call))))
        (value,) = _mlir.core_call_lowering(around, *given, name=_target(call), call_jaxpr=jaxpr)
        (value,) = _converted([value[0] if isinstance(value, tuple | list) else value], [call.results[0].type])
    call.results[0].replace_all_uses_with(value)
    call.erase()


def _converted(values: Sequence[Any], kinds: Sequence[Any]) -> list[Any]:
    """The values with the dtypes of these MLIR types."""
    pairs = zip(values, kinds, strict=True)
    return [each if each.type == to else _ir.Operation.create("stablehlo.convert", [to], [each]).results[0] for each, to in pairs]


_mlir.register_lowering(_program_p, _lower)
