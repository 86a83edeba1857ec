"""Context managers of the builder: attributes that each node gets inside them, and name scopes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tilestep.popart.builder.attributes import AttributeValue
from tilestep.popart.builder.model import GraphModel


class AttributeContextManager:
    """Gives nodes an attribute. Inside another one for the same attribute this one counts."""

    def __init__(self, model: GraphModel, name: str, value: AttributeValue) -> None:
        self._model, self._name, self._value = model, name, value
        self._before: list[AttributeValue | None] = []

    def __enter__(self) -> None:
        self._before.append(self._model.attributes.get(self._name))
        self._model.attributes[self._name] = self._value

    def __exit__(self, *exception: object) -> None:
        before = self._before.pop()
        if before is None:
            self._model.attributes.pop(self._name, None)
        else:
            self._model.attributes[self._name] = before


class KeyValueContextManager:
    """Gives nodes an attribute of keys and values, in one list. Keys of a context around it stay; where both have one, its value counts."""

    def __init__(self, model: GraphModel, name: str, values: Mapping[str, str]) -> None:
        self._model, self._name, self._values = model, name, dict(values)
        self._open: list[AttributeContextManager] = []

    def __enter__(self) -> None:
        before = cast("list[str]", self._model.attributes.get(self._name, []))
        merged = {**self._values, **dict(zip(before[::2], before[1::2], strict=True))}
        texts = [text for key in sorted(merged) for text in (key, merged[key])]
        self._open.append(AttributeContextManager(self._model, self._name, texts))
        self._open[-1].__enter__()

    def __exit__(self, *exception: object) -> None:
        self._open.pop().__exit__(*exception)


class NameContextManager:
    """Puts a name before the names of tensors and nodes."""

    def __init__(self, model: GraphModel, name: str) -> None:
        self._model, self._name = model, name

    def __enter__(self) -> None:
        self._model.scope.append(self._name)

    def __exit__(self, *exception: object) -> None:
        self._model.scope.pop()
