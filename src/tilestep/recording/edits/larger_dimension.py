"""A program with a larger dimension, such as its batch: which dimensions of all its values grow with it, told by what operations do.

Sizes alone don't tell: a batch may be as long as a layer is wide, and batches are flattened together with other dimensions. So each
operation says which dimensions of its operands and its result are one. Where that is unknown, there is no such program.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Final, final

from tilestep.program.hlo import Computation, HloModule, Instruction
from tilestep.program.shapes import Shape
from tilestep.program.work import ArrayShape
from tilestep.recording.edits.links import ALIKE, ARRAYS, groups_of, numbers, physical
from tilestep.recording.edits.script import ImpossibleEditError
from tilestep.recording.edits.split_constants import apart, together

Dim = tuple[str, str, int, int]  # computation, instruction, leaf of its result, dimension
_FREE: Final = frozenset({"parameter", "iota", "constant", "after-all", "partition-id", "replica-id"})


def enlarged(module: HloModule, dims: Mapping[int, int], factor: int | Fraction) -> HloModule:
    """The module in which a dimension of some arguments, and all that are one with it, are so many times as long.

    Args:
        module: of the program.
        dims: by argument, the dimension that grows.
        factor: from 2; or a part of one, such as a half.

    Raises:
        ImpossibleEditError: if another argument or a constant would grow, a length is no multiple of the part, or nobody knows what an
            operation makes of the dimension.
    """
    module = apart(module)
    links = _Links(module)
    entry = module.entry
    parameters = entry.parameters
    if unknown := [index for index in dims if not 0 <= index < len(parameters)]:
        raise ImpossibleEditError(f"the program has {len(parameters)} arguments, and no argument {unknown[0]}")
    seeds = [(entry.name, parameters[index].name, 0, dim) for index, dim in dims.items()]
    growing = links.grown(seeds)
    for computation in module.computations.values():
        for instruction in computation.instructions:
            for leaf, dim in growing.get((computation.name, instruction.name), ()):
                where = (computation.name, instruction.name, leaf, dim)
                if instruction.opcode == "constant" or where in links.fixed:
                    raise ImpossibleEditError(f"'{instruction.name}' cannot grow with the dimension")
                if computation is entry and instruction.opcode == "parameter" and dims.get(int(instruction.literal)) != dim:
                    raise ImpossibleEditError(f"argument {instruction.literal} would grow as well")
    changed = {name: _grown(computation, growing, factor) for name, computation in module.computations.items()}
    longer = replace(module, entry=changed[entry.name], computations=changed)
    return together(longer, lambda computation, name: frozenset(growing.get((computation, name), ())))


def arguments_with(module: HloModule, value: Dim) -> list[tuple[Instruction, int]]:
    """The parameters of the program, each with its dimension that is one with a value's.

    Raises: ImpossibleEditError if it is unknown which of several dimensions is.
    """
    module = apart(module)
    found = _Links(module).grown([value])
    return [(each, dim) for each in module.entry.parameters for _, dim in sorted(found.get((module.entry.name, each.name), ()))]


def _grown(computation: Computation, growing: Mapping[tuple[str, str], Collection[tuple[int, int]]], factor: int | Fraction) -> Computation:
    def changed(instruction: Instruction) -> Instruction:
        found = growing.get((computation.name, instruction.name), ())
        attributes = dict(instruction.attributes)
        operand = instruction.operands[0] if instruction.operands else ""
        own = {dim for _, dim in growing.get((computation.name, operand), ())} | {dim for _, dim in found}
        if instruction.opcode == "slice" and own:
            limits = numbers(attributes["slice"].replace(":", " "))
            width = len(limits) // len(instruction.leaves[0].dims)
            bounds = [limits[k : k + width] for k in range(0, len(limits), width)]
            bounds = [[low, _times(high, factor if dim in own else 1), *rest] for dim, (low, high, *rest) in enumerate(bounds)]
            attributes["slice"] = "{" + ", ".join(f"[{':'.join(map(str, each))}]" for each in bounds) + "}"
        elif instruction.opcode == "dynamic-slice" and own:
            sizes = numbers(attributes["dynamic_slice_sizes"])
            attributes["dynamic_slice_sizes"] = _listed([_times(size, factor if dim in own else 1) for dim, size in enumerate(sizes)])
        elif instruction.opcode == "gather":
            of_operand = {dim for _, dim in growing.get((computation.name, operand), ())}
            dims = computation.by_name[operand].leaves[0].dims
            sizes = numbers(attributes["slice_sizes"])
            full = [_times(size, factor if dim in of_operand and size == dims[dim] else 1) for dim, size in enumerate(sizes)]
            attributes["slice_sizes"] = _listed(full)
        if not found:
            return replace(instruction, attributes=attributes)
        return replace(instruction, attributes=attributes, shape=_longer(instruction.shape, 0, found, factor))

    instructions = tuple(map(changed, computation.instructions))
    root = next(new for old, new in zip(computation.instructions, instructions, strict=True) if old is computation.root)
    return replace(computation, instructions=instructions, root=root)


def _times(size: int, factor: int | Fraction) -> int:
    product = size * factor
    if product.denominator != 1:
        raise ImpossibleEditError(f"a dimension of {size:,} has no part of {factor}")
    return int(product)


def _listed(sizes: Sequence[int]) -> str:
    return "{" + ",".join(map(str, sizes)) + "}"


def _longer(shape: Shape, first: int, found: Collection[tuple[int, int]], factor: int | Fraction) -> Shape:
    """A shape with longer dimensions. Args: first: number of its first leaf among those of the instruction."""

    def longer(number: int, leaf: ArrayShape) -> ArrayShape:
        return replace(leaf, dims=tuple(_times(size, factor if (number, dim) in found else 1) for dim, size in enumerate(leaf.dims)))

    leaves = tuple(longer(first + index, leaf) for index, leaf in enumerate(shape.leaves))
    if shape.elements is None:
        return replace(shape, leaves=leaves)
    elements: list[Shape] = []
    for element in shape.elements:
        elements.append(_longer(element, first, found, factor))
        first += len(element.leaves)
    return replace(shape, leaves=leaves, elements=tuple(elements))


@final
class _Links:
    """Which dimensions of a module's values are one.

    Attributes: fixed: dimensions that nobody can make longer. They count if they would have to be.
    """

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._parents: dict[Dim, Dim] = {}
        self.fixed: set[Dim] = set()
        self._merged: list[tuple[list[Dim], list[Dim]]] = []  # (one or several dimensions, those that they become)
        for computation in module.computations.values():
            for instruction in computation.instructions:
                self._add(computation, instruction)

    def grown(self, seeds: Sequence[Dim]) -> dict[tuple[str, str], set[tuple[int, int]]]:
        """By computation and instruction, (leaf, dimension) of all that grow with some dimensions.

        Raises: ImpossibleEditError if it is unknown which of several dimensions grows.
        """
        for seed in seeds[1:]:
            self._link(seeds[0], seed)
        while True:
            growing = self._root(seeds[0])
            changed = False
            for one, other in self._merged:
                counts = [sum(self._root(dim) == growing for dim in side) for side in (one, other)]
                if counts in ([0, 0], [1, 1]):
                    continue
                side, lacking = (one, other) if counts[0] else (other, one)
                if max(counts) > 1 or min(counts) or len(side) > 1 < len(lacking):
                    raise ImpossibleEditError("it is unknown which dimension grows where several become others")
                [known] = [dim for dim in side if self._root(dim) == growing]
                self._link(known, lacking[0])  # the outermost, as arrays of batches are flattened
                changed = True
            if not changed:
                break
        found: dict[tuple[str, str], set[tuple[int, int]]] = {}
        for computation in self._module.computations.values():
            for instruction in computation.instructions:
                for leaf, shape in enumerate(instruction.leaves):
                    for dim in range(len(shape.dims)):
                        if self._root((computation.name, instruction.name, leaf, dim)) == growing:
                            found.setdefault((computation.name, instruction.name), set()).add((leaf, dim))
        return found

    def _root(self, dim: Dim) -> Dim:
        while (parent := self._parents.get(dim, dim)) != dim:
            self._parents[dim] = self._parents.get(parent, parent)
            dim = parent
        return dim

    def _link(self, one: Dim, other: Dim) -> None:
        self._parents[self._root(one)] = self._root(other)

    def _dims(self, computation: Computation, name: str, leaf: int = 0) -> list[Dim]:
        return [(computation.name, name, leaf, dim) for dim in range(len(computation.by_name[name].leaves[leaf].dims))]

    def _all(self, computation: Computation, name: str) -> Iterator[tuple[list[Dim], ArrayShape]]:
        for leaf, shape in enumerate(computation.by_name[name].leaves):
            yield self._dims(computation, name, leaf), shape

    def _same(self, one: tuple[Computation, str], other: tuple[Computation, str], first: int = 0) -> None:
        """Links all leaves of one value with those of another from its leaf `first` on, in order."""
        for leaf, (dims, _) in enumerate(self._all(*one)):
            self._pair(dims, self._dims(*other, first + leaf))

    def _pair(self, one: Sequence[Dim], other: Sequence[Dim]) -> None:
        for mine, its in zip(one, other, strict=True):
            self._link(mine, its)

    def _fix(self, computation: Computation, instruction: Instruction) -> None:
        for name in (instruction.name, *instruction.operands):
            for dims, _ in self._all(computation, name):
                self.fixed.update(dims)

    def _add(self, computation: Computation, instruction: Instruction) -> None:
        """Links the dimensions of an instruction and of its operands."""
        opcode, name, operands = instruction.opcode, instruction.name, instruction.operands
        if opcode in _FREE:
            return
        if opcode in ("reshape", "bitcast"):
            self._reshaped(computation, instruction)
        elif opcode in ("tuple", "get-tuple-element", "while", "call", "conditional", "opt-barrier"):
            self._passed(computation, instruction)
        elif opcode in ALIKE and all(of.dims in ((), instruction.leaves[0].dims) for n in operands for _, of in self._all(computation, n)):
            for operand in operands:
                if computation.by_name[operand].leaves[0].dims:
                    self._pair(self._dims(computation, operand), self._dims(computation, name))
        elif (pairs := ARRAYS.get(opcode)) is not None:
            shapes = [computation.by_name[operand].leaves[0].dims for operand in operands]
            found = pairs(instruction, shapes)
            result = self._dims(computation, name)
            arrays = [self._dims(computation, operand) for operand in operands]
            for leaf in range(1, len(instruction.leaves)):  # a reduction may have several arrays
                self._pair(self._dims(computation, name, leaf), result)
            for one, other in found.links:
                self._link(([*arrays, result])[one[0]][one[1]], ([*arrays, result])[other[0]][other[1]])
            self.fixed.update(([*arrays, result])[place][dim] for place, dim in found.fixed)
        else:
            self._fix(computation, instruction)

    def _reshaped(self, computation: Computation, instruction: Instruction) -> None:
        before, after = computation.by_name[instruction.operands[0]].leaves[0], instruction.leaves[0]
        is_bitcast = instruction.opcode == "bitcast"
        places = [physical(shape) if is_bitcast else tuple(range(len(shape.dims))) for shape in (before, after)]
        if prod(before.dims) != prod(after.dims) or not prod(before.dims):
            self._fix(computation, instruction)
            return
        mine, its = self._dims(computation, instruction.operands[0]), self._dims(computation, instruction.name)
        for one, other in groups_of([before.dims[k] for k in places[0]], [after.dims[k] for k in places[1]]):
            if len(one) == len(other) == 1:
                self._link(mine[places[0][one[0]]], its[places[1][other[0]]])
            else:
                self._merged.append(([mine[places[0][k]] for k in one], [its[places[1][k]] for k in other]))

    def _passed(self, computation: Computation, instruction: Instruction) -> None:
        own, operands = (computation, instruction.name), instruction.operands
        called = [self._module.computations[name] for name in instruction.calls]
        match instruction.opcode:
            case "tuple":
                first = 0
                for operand in operands:
                    self._same((computation, operand), own, first)
                    first += len(computation.by_name[operand].leaves)
            case "get-tuple-element":
                first, _ = computation.by_name[operands[0]].shape.span(int(instruction.attributes["index"]))
                self._same(own, (computation, operands[0]), first)
            case "opt-barrier":
                self._same((computation, operands[0]), own)
            case "while":
                self._same((computation, operands[0]), own)
                for each in called:
                    self._same((each, each.parameters[0].name), own)
                for name in instruction.called("body"):
                    self._same((self._module.computations[name], self._module.computations[name].root.name), own)
            case _:
                given = operands if instruction.opcode == "call" else operands[1:]
                for place, each in enumerate(called):
                    taken = given if instruction.opcode == "call" else given[place : place + 1]
                    for operand, parameter in zip(taken, each.parameters, strict=True):
                        self._same((computation, operand), (each, parameter.name))
                    self._same((each, each.root.name), own)
