"""The emulated machine as a text of a recording."""

from collections.abc import Mapping
from typing import Any, cast

from tilestep.errors import RecordingError, SpecError
from tilestep.machine.assemble import FIELD_KINDS, assemble, value_of
from tilestep.machine.fields import Value
from tilestep.machine.spec import MachineSpec
from tilestep.machine.toml import checked_field
from tilestep.messages import shown

_WORDS = ("name", "description")
_LATER: Mapping[str, Any] = {"simulated_ipus": 0}  # fields that earlier recordings lack
_WHERE = "the machine of the recording:"
_MOST_TILES_PER_IPU = 2**16


def machine_document(machine: MachineSpec) -> dict[str, Value]:
    """Name, description, and every field by its path."""
    return {"name": machine.name, "description": machine.description, **{path: value_of(machine, path) for path in FIELD_KINDS}}


def machine_from_document(document: object) -> MachineSpec:
    """The machine that `machine_document` has described.

    Raises: RecordingError naming a field that is missing, unknown, of another type, or outside of its bounds.
    """
    if not isinstance(document, Mapping):
        raise RecordingError(f"{_WHERE} it is {shown(document)}, and must be an object with every field by its path")
    fields = {**_LATER, **cast("Mapping[str, Any]", document)}
    known = (*_WORDS, *FIELD_KINDS)
    missing, strange = [path for path in known if path not in fields], [path for path in fields if path not in known]
    if missing or strange:
        raise RecordingError(f"{_WHERE} it lacks the fields {shown(missing)} and has the unknown {shown(strange)}")
    for word in _WORDS:
        if not isinstance(fields[word], str) or not fields[word].isprintable():
            raise RecordingError(f"{_WHERE} {word} is {shown(fields[word])}: it must be a line of text")
    try:
        sources = {path: checked_field(path, fields[path], where=_WHERE, source="the recording") for path in FIELD_KINDS}
        machine = assemble(name=fields["name"], description=fields["description"], sources=sources)
    except SpecError as error:
        raise RecordingError(str(error)) from None
    if machine.ipu.num_tiles > _MOST_TILES_PER_IPU:
        raise RecordingError(f"{_WHERE} ipu.num_tiles is {machine.ipu.num_tiles:,}: at most {_MOST_TILES_PER_IPU:,} are read")
    return machine
