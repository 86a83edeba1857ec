"""Converts between the nested spec of a machine and the flat list of its fields by path ('ipu.tile.sram_bytes')."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from tilestep.errors import SpecError
from tilestep.machine.fields import QUANTITIES, FieldSource, SyncPattern, Topology, Value
from tilestep.machine.spec import HostSpec, IpuSpec, LinkSpec, MachineSpec, TileSpec

_PARTS: Mapping[str, type] = MappingProxyType(
    {"": MachineSpec, "ipu.": IpuSpec, "ipu.tile.": TileSpec, "link.": LinkSpec, "host.": HostSpec}
)
_KINDS: Mapping[Any, type] = MappingProxyType({int: int, float: float, str: str, SyncPattern: str, Topology: str})  # by annotation
_IDENTITY = ("name", "description")  # identify the machine, and are none of its properties


def _kinds() -> Iterator[tuple[str, type]]:
    for prefix, part in _PARTS.items():
        for spec_field in fields(part):
            if spec_field.type in _KINDS and spec_field.name not in _IDENTITY:
                yield prefix + spec_field.name, _KINDS[spec_field.type]


FIELD_KINDS: Mapping[str, type] = MappingProxyType(dict(_kinds()))
"""Type of every field but name and description, by path."""


def assemble(*, name: str, description: str, sources: Mapping[str, FieldSource]) -> MachineSpec:
    """The machine with the values of `sources` (field path -> value and its origin).

    Raises: KeyError if a field has no entry; SpecError if the values describe no machine.
    """

    def part(prefix: str) -> dict[str, Any]:
        paths = (path for path in FIELD_KINDS if path.startswith(prefix) and "." not in path[len(prefix) :])
        return {path[len(prefix) :]: sources[path].value for path in paths}

    try:
        return _assembled(name, description, part, sources)
    except SpecError as error:  # which names a class, where a user knows the field by its path
        text = str(error)
        prefix = next((prefix for prefix, cls in _PARTS.items() if text.startswith(f"{cls.__name__}.")), None)
        if prefix is None:
            raise
        raise SpecError(prefix + text.partition(".")[2]) from None


def _assembled(name: str, description: str, part: Callable[[str], dict[str, Any]], sources: Mapping[str, FieldSource]) -> MachineSpec:
    return MachineSpec(
        name=name,
        description=description,
        ipu=IpuSpec(tile=TileSpec(**part("ipu.tile.")), **part("ipu.")),
        link=LinkSpec(**part("link.")),
        host=HostSpec(**part("host.")),
        sources=tuple(sources[path] for path in QUANTITIES),
        **part(""),
    )


def value_of(spec: MachineSpec, path: str) -> Value:
    """The value of the field at `path`."""
    owner: Any = spec
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner


def describe(spec: MachineSpec) -> tuple[FieldSource, ...]:
    """Every field of a machine with its value, unit, source and basis, in the order of the spec.

    Args:
        spec: the machine.

    Returns:
        One entry for each field. A value that differs from its source's (a spec changed by `dataclasses.replace`, or made by hand) has the
        basis 'assumed'.
    """
    known = {entry.path: entry for entry in spec.sources}

    def entry(path: str) -> FieldSource:
        value, found = value_of(spec, path), known.get(path)
        if found is not None and found.value == value:
            return found
        return FieldSource(
            path=path, value=value, unit=QUANTITIES[path].unit, source="set by the program that made this machine", basis="assumed"
        )

    return tuple(entry(path) for path in QUANTITIES)
