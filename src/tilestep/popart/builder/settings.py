"""Settings of inputs and variables, which stand in a model's metadata."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import onnx

from tilestep.popart.builder.graph import attribute_names as names
from tilestep.popart.builder.graph.model import GraphModel
from tilestep.popart.enums import CommGroupType, ExchangeStrategy, ReplicatedStreamMode, TileSet, VariableRetrievalMode
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.tensors import InputSettings
from tilestep.popart.variables import CommGroup, VariableSettings

_STRIDE: Final = "__replica_group_stride"  # ours: the original's metadata has no place for groups with a stride


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """What a model's metadata says.

    Attributes:
        inputs: settings of each input that the builder added.
        variables: settings of each variable that the builder added.
        replication_factor: None if the model does not say it.
    """

    inputs: Mapping[str, InputSettings] = field(default_factory=dict[str, InputSettings])
    variables: Mapping[str, VariableSettings] = field(default_factory=dict[str, VariableSettings])
    replication_factor: int | None = None


def settings_of(proto: onnx.ModelProto) -> ModelSettings:
    """Reads the settings of a model's inputs and variables.

    Raises: popart_exception for an entry that is damaged.
    """
    entries = {entry.key: entry.value for entry in proto.metadata_props}
    try:
        inputs = {id: _input(entries, id) for id in _ids(entries, names.TILE_SET)}
        variables = {id: _variable(entries, id) for id in _ids(entries, names.COMM_GROUP_TYPE)}
        factor = entries.get(names.REPLICATION_FACTOR)
        return ModelSettings(inputs=inputs, variables=variables, replication_factor=None if factor is None else int(factor))
    except (KeyError, ValueError) as error:
        raise popart_exception(f"the model's metadata has an entry that can't be read: {error}") from error


def note_input(model: GraphModel, id: str, settings: InputSettings) -> None:
    """Writes the settings of an input."""
    model.note_metadata(_key(names.TILE_SET, id), settings.tileSet().value)
    model.note_metadata(_key(names.EXCHANGE_STRATEGY, id), settings.exchangeStrategy().value)
    model.note_metadata(_key(names.REPLICATED_STREAM_MODE, id), settings.replicatedStreamMode().value)


def note_variable(model: GraphModel, id: str, settings: VariableSettings) -> None:
    """Writes the settings of a variable."""
    model.note_metadata(_key(names.COMM_GROUP_TYPE, id), settings.getCommGroupType().value)
    model.note_metadata(_key(names.COMM_GROUP_SIZE, id), settings.getGroupSize())
    model.note_metadata(_key(names.VARIABLE_SETTINGS, id), settings.getRetrievalMode().value)
    if not settings.isUsingCommGroup():
        model.note_metadata(_key(_STRIDE, id), settings.getStride())


def _key(name: str, id: str) -> str:
    return f"{name}{names.NAME_DELIMITER}{id}"


def _ids(entries: Mapping[str, str], name: str) -> list[str]:
    prefix = _key(name, "")
    return [key.removeprefix(prefix) for key in entries if key.startswith(prefix)]


def _input(entries: Mapping[str, str], id: str) -> InputSettings:
    mode = ReplicatedStreamMode(int(entries[_key(names.REPLICATED_STREAM_MODE, id)]))
    tiles = TileSet(int(entries[_key(names.TILE_SET, id)]))
    strategy = ExchangeStrategy(int(entries[_key(names.EXCHANGE_STRATEGY, id)]))
    return InputSettings(tiles, strategy, replicatedStreamMode=mode)


def _variable(entries: Mapping[str, str], id: str) -> VariableSettings:
    mode = VariableRetrievalMode(int(entries[_key(names.VARIABLE_SETTINGS, id)]))
    size = int(entries[_key(names.COMM_GROUP_SIZE, id)])
    if _key(_STRIDE, id) in entries:
        return VariableSettings(int(entries[_key(_STRIDE, id)]), size, mode)
    return VariableSettings(CommGroup(CommGroupType(int(entries[_key(names.COMM_GROUP_TYPE, id)])), size), mode)
