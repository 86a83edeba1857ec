"""Which IPUs a collective operation connects, read from the text forms that XLA prints."""

import re
from collections.abc import Iterable
from math import prod
from typing import cast, get_args

from tilestep.errors import HloError
from tilestep.plan.steps import CollectiveKind
from tilestep.program.hlo import Instruction

Groups = tuple[tuple[int, ...], ...]

KINDS = frozenset(get_args(CollectiveKind))
_LIST = re.compile(r"\{([\d,\s]*)\}")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?$")
_MESH = re.compile(r"mesh\[([^\]]*)\](?:, device_ids=\((.*)\))? ?\{([^}]*)\}$")
_AXIS = re.compile(r"(.+?):\((\d+)\)(\d+)$")
_DEVICE_IOTA = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?$")


def kind_of(instruction: Instruction) -> CollectiveKind | None:
    """The kind of a collective instruction, None for any other."""
    opcode = "all-to-all" if instruction.opcode == "ragged-all-to-all" else instruction.opcode
    return cast(CollectiveKind, opcode) if opcode in KINDS else None


def groups_of(instruction: Instruction, num_ipus: int) -> Groups:
    """Devices that communicate with each other; groups of one are left out.

    Raises: HloError if the text is not understood or names a device that the program does not have.
    """
    if instruction.opcode == "collective-permute":
        ends = {device for pair in pairs_of(instruction, num_ipus) if pair[0] != pair[1] for device in pair}
        return (tuple(sorted(ends)),) if ends else ()
    text = instruction.attributes.get("replica_groups", "{}")
    groups = parse_groups(text, num_ipus)
    _check(instruction, (device for group in groups for device in group), num_ipus)
    return tuple(group for group in groups if len(group) > 1)


def pairs_of(instruction: Instruction, num_ipus: int) -> tuple[tuple[int, int], ...]:
    """(source, target) of a collective-permute.

    Raises: HloError if the text is not understood or names a device that the program does not have.
    """
    pairs: list[tuple[int, int]] = []
    for found in _LIST.findall(instruction.attributes.get("source_target_pairs", "")):
        ends = _ints(found)
        if len(ends) != 2:
            raise HloError(f"line {instruction.line}: source_target_pairs of {instruction.name!r} holds {{{found}}}, expected two devices")
        pairs.append((ends[0], ends[1]))
    _check(instruction, (device for pair in pairs for device in pair), num_ipus)
    return tuple(pairs)


def parse_groups(text: str, num_ipus: int) -> Groups:
    """Reads `replica_groups`: '{}' (all devices), '{{0,1},{2,3}}', '[2,4]<=[8]', '[4,2]<=[2,4]T(1,0)' or "mesh['a'=2,'b'=4] {'b'}".

    Raises: HloError for any other text.
    """
    if text.startswith("{"):
        groups = tuple(_ints(found) for found in _LIST.findall(text[1:-1]))
        return groups or (tuple(range(num_ipus)),)
    iota = _IOTA.match(text)
    if iota:
        dims, reshaped, order = (_ints(part or "") for part in iota.groups())
        return _rows(_transposed(reshaped, order or tuple(range(len(reshaped)))), prod(dims[1:]))
    mesh = _MESH.match(text)
    if mesh:
        return _mesh_groups(*mesh.groups())
    raise HloError(f"replica_groups={text} is not understood")


def _mesh_groups(axes_text: str, devices_text: str | None, used_text: str) -> Groups:
    """Groups along named axes of a mesh, or along a part of an axis: 'a':(2)4 is the middle 4 of 2 x 4 x rest."""
    sizes: dict[str, int] = {}
    for part in axes_text.split(","):
        name, _, size = part.rpartition("=")
        sizes[name.strip()] = int(size)
    used: dict[str, tuple[int, int]] = {}  # name -> (size before, size)
    for part in used_text.split(",") if used_text.strip() else ():
        found = _AXIS.match(part.strip())
        name = found.group(1) if found else part.strip()
        if name not in sizes:
            raise HloError(f"replica_groups uses axis {name}, the mesh has {', '.join(sizes)}")
        used[name] = (int(found.group(2)), int(found.group(3))) if found else (1, sizes[name])
    dims: list[int] = []
    inside: list[int] = []
    outside: list[int] = []
    for name, size in sizes.items():
        before, span = used.get(name, (1, 1))
        outside.append(len(dims))
        inside.append(len(dims) + 1)
        outside.append(len(dims) + 2)
        dims += [before, span, size // (before * span)]
    positions = _transposed(tuple(dims), (*outside, *inside))
    devices = _mesh_devices(devices_text, len(positions))
    return _rows([devices[position] for position in positions], prod(dims[axis] for axis in inside))


def _mesh_devices(text: str | None, count: int) -> list[int]:
    """Device at each position of a mesh: counted up, listed, or counted up and transposed."""
    if text is None:
        return list(range(count))
    iota = _DEVICE_IOTA.match(text)
    if iota:
        dims = _ints(iota.group(1))
        return _transposed(dims, _ints(iota.group(2) or "") or tuple(range(len(dims))))
    return list(_ints(text))


def _transposed(dims: tuple[int, ...], order: tuple[int, ...]) -> list[int]:
    """0, 1, 2, ... in an array of `dims`, its axes put into `order`, read row by row."""
    strides = [prod(dims[axis + 1 :]) for axis in range(len(dims))]
    values = [0]
    for axis in order:
        values = [value + index * strides[axis] for value in values for index in range(dims[axis])]
    return values


def _rows(values: list[int], width: int) -> Groups:
    return tuple(tuple(values[start : start + width]) for start in range(0, len(values), width))


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number.strip())


def _check(instruction: Instruction, devices: Iterable[int], num_ipus: int) -> None:
    for device in devices:
        if device >= num_ipus:
            raise HloError(f"line {instruction.line}: {instruction.name!r} names device {device}, the program runs on {num_ipus}")
