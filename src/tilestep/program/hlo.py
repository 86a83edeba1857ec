"""Reads XLA's text form of a module (`HloModule.to_string()`) into frozen data.

The reader keeps what a cost model needs: computations, shapes with layouts, operands, attributes as they are printed,
and the metadata that leads back to the user's operation and its line (`frames.py`).
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from tilestep.errors import HloError
from tilestep.messages import shown
from tilestep.program.frames import Frame, parse_frames
from tilestep.program.shapes import EMPTY_TUPLE, Shape, parse_shape
from tilestep.program.text import closing, split_top_level, unescape
from tilestep.program.work import ArrayShape

_INSTRUCTION = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = (.*?) ?(?<![\w\-])([a-z][\w\-]*+)\((.*)$", re.S)
_PLAIN_OPERANDS = re.compile(r"((?:%[\w.\-]+(?:, )?)*)\)")
_OPERAND = re.compile(r"%([\w.\-]+)")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) .*\{$")
_PLAIN_METADATA = re.compile(r', metadata=\{(?:op_type="[^"\\]*" )?(?:op_name="([^"\\]*)")? ?(?:stack_frame_id=(\d{1,9}))?\}')
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.S)
_FRAME = re.compile(r"\bstack_frame_id=(\d{1,9})\b")
_KEY = re.compile(r", ([\w.\-]+)=")
_PLAIN_VALUE = re.compile(r'[^{}"]*?(?=, (?!device_ids=)[\w.\-]+=|$)')  # a mesh's device_ids belong to the value before
_BRACKET = re.compile(r'["{]')
_EFFECTS = frozenset({"parameter", "custom-call", "infeed", "outfeed", "send", "send-done", "recv", "recv-done", "while", "conditional",
                      "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast",
                      "rng-get-and-update-state"})  # fmt: skip
_CALLING = ("to_apply", "calls", "body", "condition", "branch_computations", "true_computation", "false_computation",
            "called_computations", "select", "scatter")  # fmt: skip
_MOVES = {"MoveToHost": "host", "MoveToDevice": "device"}  # custom calls that XLA has for it
_FRONTEND = re.compile(r'[{,]\s*([\w.\-]+)="((?:[^"\\]|\\.)*)"')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"([0-9]{1,18})"')
_COMMENT = re.compile(r"/\*[^*]*\*/")
_ALIAS = re.compile(r"\{((?:[0-9]{1,9}(?:, ?[0-9]{1,9})*)?)\}: \(([0-9]{1,9}), \{([\d, ]*)\}(?:, [\w\-]+)?\)")
_DONOR = re.compile(r"\(([0-9]{1,9}), \{[\d, ]*\}\)")
_SMALL = re.compile(r"[0-9]{1,9}")  # a number of an argument, of devices
_NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One line of a computation."""

    name: str  # unique in its computation
    opcode: str  # HLO opcode
    shape: Shape  # shape of the result
    operands: tuple[str, ...] = ()  # names of instructions of the same computation
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])  # as printed behind the operands, without metadata
    calls: tuple[str, ...] = ()  # names of called computations, in printed order
    op_name: str = ""  # the user's operation, for example 'jit(step)/dot_general'
    literal: str = ""  # value of a constant, number of a parameter, or other text where operands stand
    line: int = 0  # in the text, from 1; 0 if the instruction was made by hand
    after: tuple[str, ...] = ()  # names of instructions of the same computation that a barrier wants to run before this one
    frame: int = 0  # number of its line in the module's `frames`; 0 if unknown

    @property
    def leaves(self) -> tuple[ArrayShape, ...]:
        """The arrays of the result in order, with tuples flattened."""
        return self.shape.leaves

    @property
    def is_tuple(self) -> bool:
        """Whether the result is a tuple, also of a single element."""
        return self.shape.elements is not None

    @property
    def trip_count(self) -> int | None:
        """Trips of a while loop, if XLA knows them, else None."""
        found = _TRIPS.search(self.attributes.get("backend_config", ""))
        return int(found.group(1)) if found else None

    @property
    def destination(self) -> str:
        """The memory into which it moves its operand: 'host', 'device', or '' if it moves nothing."""
        return _MOVES.get(self.attributes.get("custom_call_target", ""), "") if self.opcode == "custom-call" else ""

    def called(self, key: str) -> tuple[str, ...]:
        """Names of the computations under attribute `key` ('body', 'to_apply', ...); () if there are none."""
        return tuple(_OPERAND.findall(self.attributes.get(key, "")))

    @cached_property
    def frontend_attributes(self) -> Mapping[str, str]:
        """The frontend attributes by name."""
        text = self.attributes.get("frontend_attributes")
        return {key: unescape(value) for key, value in _FRONTEND.findall(text)} if text else _NO_ATTRIBUTES


@dataclass(frozen=True, kw_only=True)
class Computation:
    """A function of the module."""

    name: str  # unique in the module
    instructions: tuple[Instruction, ...]  # in an order in which each follows its operands
    root: Instruction  # the instruction that gives the result

    @cached_property
    def by_name(self) -> Mapping[str, Instruction]:
        """Instructions by name."""
        return {instruction.name: instruction for instruction in self.instructions}

    @cached_property
    def users(self) -> Mapping[str, list[Instruction]]:
        """The users of each value by its name. An instruction that uses a value twice is listed twice."""
        users: dict[str, list[Instruction]] = defaultdict(list)
        for instruction in self.instructions:
            for operand in instruction.operands:
                users[operand].append(instruction)
        return users

    @cached_property
    def parameters(self) -> tuple[Instruction, ...]:
        """The parameters, in the order of their numbers."""
        found = [instruction for instruction in self.instructions if instruction.opcode == "parameter"]
        return tuple(sorted(found, key=lambda parameter: int(parameter.literal)))


@dataclass(frozen=True, kw_only=True)
class HloModule:
    """A whole program for one device."""

    name: str  # name of the module
    entry: Computation  # the computation that runs first
    computations: Mapping[str, Computation]  # all computations by name, with the entry
    # index of a result -> index of the argument whose memory it takes over
    input_output_aliases: Mapping[int, int] = field(default_factory=dict[int, int])
    buffer_donors: tuple[int, ...] = ()  # arguments that were donated without such a result
    argument_spaces: tuple[int, ...] = ()  # memory space of each argument: 0 device, 5 host; () if the text names none
    result_spaces: tuple[int, ...] = ()  # memory space of each result, likewise
    num_partitions: int = 1  # as printed; 1 if the text names none
    num_replicas: int = 1  # as printed; 1 if the text names none
    # lines of the user's program, by the numbers that instructions have
    frames: Mapping[int, Frame] = field(default_factory=dict[int, Frame])


def rebuilt(computation: Computation, changed: Mapping[str, Instruction], renamed: Mapping[str, str]) -> Computation:
    """The computation with instructions changed, values renamed, and unused instructions left out.

    Args:
        changed: by the name of the instruction that they replace, which is also their own.
        renamed: the name of an instruction that goes, and of the value that stands for it now.
    """
    instructions: list[Instruction] = []
    for original in computation.instructions:
        if original.name in renamed:
            continue
        instruction = changed.get(original.name, original)
        operands = tuple(renamed.get(operand, operand) for operand in instruction.operands)
        after = tuple(renamed.get(other, other) for other in instruction.after)
        if (operands, after) != (instruction.operands, instruction.after):
            instruction = replace(instruction, operands=operands, after=after)
        instructions.append(instruction)
    root = renamed.get(computation.root.name, computation.root.name)
    used = {root}
    kept: list[Instruction] = []
    for instruction in reversed(instructions):
        if instruction.name in used or instruction.opcode in _EFFECTS:
            kept.append(instruction)
            used.update(instruction.operands)
    kept.reverse()
    return Computation(name=computation.name, instructions=tuple(kept), root=next(i for i in kept if i.name == root))


def parse_hlo(text: str) -> HloModule:
    """Reads the text of a module.

    Args:
        text: as `HloModule.to_string()` prints it with its default options.

    Raises:
        HloError: for text that is no module; the message names the line.
    """
    lines = text.split("\n")
    if not lines[0].startswith("HloModule "):
        raise HloError(f"line 1: the text of a module starts with 'HloModule', found {lines[0][:80]!r}")
    frames, behind = parse_frames(text, len(lines[0]))
    computations: dict[str, Computation] = {}
    entry = ""
    shapes: dict[str, Shape] = {}
    attributes: dict[str, tuple[Mapping[str, str], tuple[str, ...]]] = {}
    current = ""
    body: list[Instruction] = []
    root: Instruction | None = None
    number = text.count("\n", 0, behind - 1)
    while number + 1 < len(lines):
        number += 1
        line = lines[number]
        if not current:
            if line.startswith(("%", "ENTRY ")):
                found = _COMPUTATION.match(line)
                if found is None:
                    raise HloError(f"line {number + 1}: a computation's head should end with '{{', found {line[:120]!r}")
                current, body, root = found.group(2), [], None
                if found.group(1):
                    entry = current
            continue
        if line.startswith("}"):
            if not body:
                raise HloError(f"line {number + 1}: computation {current!r} has no instructions")
            computations[current] = Computation(name=current, instructions=tuple(body), root=root or body[-1])
            current = ""
            continue
        if not line.strip():
            continue
        start = number
        while number + 1 < len(lines) and lines[number + 1] and not lines[number + 1].startswith(("  ", "}")):  # a line break in a text
            number += 1
            line += "\n" + lines[number]
        instruction, is_root = _instruction(line, start + 1, shapes, attributes)
        body.append(instruction)
        if is_root:
            root = instruction
    if current:
        raise HloError(f"line {len(lines)}: computation {current!r} has no closing '}}'")
    if not entry:
        raise HloError(f"line {len(lines)}: the module has no ENTRY computation")
    return _module(lines[0], computations, computations[entry], shapes, frames)


def _instruction(
    line: str,
    number: int,
    shapes: dict[str, Shape],
    attributes: dict[str, tuple[Mapping[str, str], tuple[str, ...]]],
) -> tuple[Instruction, bool]:
    """One line as an instruction, and whether it is the root. `shapes` and `attributes` hold texts seen before."""
    found = _INSTRUCTION.match(line)
    if found is None:
        raise HloError(f"line {number}: not an instruction: {line.strip()[:160]!r}")
    is_root, name, shape_text, opcode, rest = found.groups()
    try:
        shape = shapes.get(shape_text)
        if shape is None:
            shape = shapes[shape_text] = parse_shape(_COMMENT.sub("", shape_text)) if shape_text else EMPTY_TUPLE
        operands, literal, rest = _operands(opcode, rest)
        op_name, frame, rest = _split_metadata(rest)
        known = attributes.get(rest)
        if known is None:
            printed = _attributes(rest)
            known = attributes[rest] = (MappingProxyType(printed), _calls(printed)) if printed else (_NO_ATTRIBUTES, ())
        if opcode == "parameter" and not _SMALL.fullmatch(literal):
            raise HloError(f"a parameter needs a number, found {shown(literal)}")
    except HloError as error:
        raise HloError(f"line {number}: {error} in {line.strip()[:160]!r}") from None
    instruction = Instruction(
        name=name,
        opcode=opcode,
        shape=shape,
        operands=operands,
        attributes=known[0],
        calls=known[1],
        op_name=op_name,
        literal=literal,
        line=number,
        frame=frame,
    )
    return instruction, is_root is not None


def _operands(opcode: str, text: str) -> tuple[tuple[str, ...], str, str]:
    """Splits the text behind 'opcode(' into names of operands, literal, and the text behind the closing parenthesis."""
    if opcode in ("constant", "parameter"):
        end = closing(text, 0, "(")
        return (), text[:end], text[end + 1 :]
    if "/*" in text:
        text = _COMMENT.sub("", text)
    plain = _PLAIN_OPERANDS.match(text)
    end = plain.end() - 1 if plain else closing(text, 0, "(")
    inside = text[:end]
    names = tuple(_OPERAND.findall(inside))
    return names, "" if names else inside, text[end + 1 :]


def _split_metadata(text: str) -> tuple[str, int, str]:
    """The operation's name and the number of its frame from the metadata, and the text without the metadata."""
    start = text.find(", metadata={")
    if start < 0:
        return "", 0, text
    plain = _PLAIN_METADATA.match(text, start)
    if plain:
        name, frame = plain.groups()
        return name or "", int(frame or 0), text[:start] + text[plain.end() :]
    brace = start + len(", metadata={")
    end = closing(text, brace, "{")
    found = _OP_NAME.search(text, brace, end)
    frame = _FRAME.search(_STRING.sub("", text[brace:end]))
    return unescape(found.group(1)) if found else "", int(frame.group(1)) if frame else 0, text[:start] + text[end + 1 :]


def _attributes(text: str) -> dict[str, str]:
    """Attributes by key, values as printed (strings without their quotes)."""
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        key = _KEY.match(text, position)
        if key is None:
            raise HloError(f"expected ', key=value', found {text[position : position + 60]!r}")
        position = key.end()
        start = position
        while True:  # a value is a run of bracketed, quoted and plain pieces: {{0,1}}, [2,4]<=[8], {[0:1], [0:8]}
            plain = _PLAIN_VALUE.match(text, position)
            if plain:
                position = plain.end()
                break
            bracket = _BRACKET.search(text, position)
            if bracket is None:
                raise HloError(f"unbalanced value of {key.group(1)}: {text[start : start + 60]!r}")
            position = closing(text, bracket.end(), bracket.group()) + 1
        value = text[start:position]
        found[key.group(1)] = unescape(value[1:-1]) if value.startswith('"') and value.endswith('"') else value
    return found


def _calls(attributes: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for key, value in attributes.items() if key in _CALLING for name in _OPERAND.findall(value))


def _module(
    head: str, computations: dict[str, Computation], entry: Computation, shapes: dict[str, Shape], frames: Mapping[int, Frame]
) -> HloModule:
    """The module from its first line and its computations."""
    for computation in computations.values():
        for instruction in computation.instructions:
            for called in instruction.calls:
                if called not in computations:
                    raise HloError(f"line {instruction.line}: {instruction.name!r} calls {called!r}, which the module does not have")
    try:
        return _with_head(head, computations, entry, shapes, frames)
    except HloError as error:
        raise HloError(f"line 1: {error}") from None


def _with_head(
    head: str, computations: dict[str, Computation], entry: Computation, shapes: dict[str, Shape], frames: Mapping[int, Frame]
) -> HloModule:
    name, _, rest = head.removeprefix("HloModule ").partition(",")
    attributes = _attributes("," + rest) if rest else {}
    layout = _COMMENT.sub("", attributes.get("entry_computation_layout", ""))
    argument_spaces: tuple[int, ...] = ()
    result_spaces: tuple[int, ...] = ()
    if layout:
        arguments, results = _entry_layout(layout, shapes)
        argument_spaces = tuple(space for shape in arguments for space in shape.spaces)
        result_spaces = results.spaces
    return HloModule(
        name=name.strip(),
        entry=entry,
        computations=MappingProxyType(computations),
        input_output_aliases=MappingProxyType(_aliases(attributes.get("input_output_alias", ""), entry)),
        buffer_donors=tuple(int(number) for number in _DONOR.findall(attributes.get("buffer_donor", ""))),
        argument_spaces=argument_spaces,
        result_spaces=result_spaces,
        num_partitions=_devices(attributes, "num_partitions"),
        num_replicas=_devices(attributes, "replica_count"),
        frames=frames,
    )


def _devices(attributes: Mapping[str, str], key: str) -> int:
    text = attributes.get(key, "1")
    if not _SMALL.fullmatch(text):
        raise HloError(f"{key} is {shown(text)}: it must be a number of devices")
    return int(text)


def _entry_layout(text: str, shapes: dict[str, Shape]) -> tuple[list[Shape], Shape]:
    """Shapes of arguments and of the result from '{(f32[2]{0}, ...)->f32[2]{0}}'."""
    end = closing(text, 2, "(")
    if not text.startswith("{(") or not text.startswith("->", end + 1):
        raise HloError(f"entry_computation_layout is {text[:120]!r}, expected '{{(arguments)->result}}'")
    arguments = [parse_shape(part) for part in split_top_level(text[2:end])]
    return arguments, parse_shape(text[end + 3 : -1])


def _aliases(text: str, entry: Computation) -> dict[int, int]:
    """Leaf of the result -> argument, from '{ {0}: (0, {}, may-alias) }'."""
    found: dict[int, int] = {}
    for result, argument, inner in _ALIAS.findall(text):
        if inner.strip():
            raise HloError(f"input_output_alias names a part {{{inner}}} of argument {argument}: tuples as arguments are not read")
        found[entry.root.shape.leaf(tuple(int(index) for index in result.split(",") if index.strip()))] = int(argument)
    return found
