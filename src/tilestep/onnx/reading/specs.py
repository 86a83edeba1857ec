"""What a model says of its inputs and outputs, and whether a value fits that."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import helper

from tilestep.onnx.errors import DynamicShapeError, OnnxError
from tilestep.onnx.interpreter.values import Array, SequenceValue, jax_dtype

Kind = Literal["tensor", "sequence", "optional", "map"]
_HALVES: Final = {np.dtype(np.int64): np.dtype(np.int32), np.dtype(np.uint64): np.dtype(np.uint32)}
_32_BITS: Final = {**_HALVES, np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.complex64)}
TEXT: Final = np.dtype(object)


@dataclass(frozen=True, kw_only=True)
class ValueSpec:
    """What a model declares of an input or an output.

    Attributes:
        name: of the value.
        kind: "tensor", or a "sequence", "optional" or "map" of them.
        dtype: of the tensor, or of the tensors in it; object for text; None if the model does not say.
        shape: for each dimension its size, its name, or None; None if the model does not say. A dimension with a name may have any size,
            because exporters give one name to unlike dimensions, and ONNX Runtime takes them.
    """

    name: str
    kind: Kind
    dtype: np.dtype[Any] | None
    shape: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        dtype = "text" if self.dtype == TEXT else "any" if self.dtype is None else str(self.dtype)
        shape = "[...]" if self.shape is None else f"[{', '.join('?' if size is None else str(size) for size in self.shape)}]"
        return f"{dtype}{shape}" if self.kind == "tensor" else f"{self.kind} of {dtype}{shape}"

    @property
    def is_text(self) -> bool:
        """Whether it holds text, which a program must know when it is made."""
        return self.dtype == TEXT

    def named(self) -> tuple[str, ...]:
        """Names of its dimensions."""
        return tuple(size for size in self.shape or () if isinstance(size, str))

    def free(self) -> tuple[int, ...]:
        """Its dimensions without a size of their own."""
        return tuple(axis for axis, size in enumerate(self.shape or ()) if not isinstance(size, int))

    def checked(self, value: Any, *, known: bool) -> Any:
        """An input as the interpreter takes it: sequences as `SequenceValue`, and arrays.

        Args: known: whether the value must be known, and is a NumPy array then.

        Raises: OnnxError if it is of another type or shape; DynamicShapeError if it is traced and must be known.
        """
        if self.kind == "tensor":
            return self._tensor(value, known=known)
        if value is None and self.kind == "optional":
            return None
        if self.kind == "map":
            if not isinstance(value, Mapping):
                raise self._wrong(f"is a {type(value).__name__}")
            return dict(value)
        if isinstance(value, list | tuple):
            return SequenceValue(self._tensor(element, known=known) for element in value)
        if self.kind == "sequence":
            raise self._wrong(f"is a {type(value).__name__}, and must be a list")
        return self._tensor(value, known=known)

    def _tensor(self, value: Any, *, known: bool) -> Any:
        if value is None:
            raise self._wrong("is missing")
        if isinstance(value, jax.core.Tracer):
            if known:
                raise DynamicShapeError(
                    f"input '{self.name}' must be known when the program is made, and is traced: give a NumPy array or a tuple of numbers "
                    "that is no argument of jax.jit, or make it a static argument (static_argnums) as a tuple"
                )
        elif known or not isinstance(value, jax.Array):
            value = self._array(value)
        self._require_dtype(value.dtype)
        self._require_shape(tuple(value.shape))
        if known and self.dtype is not None and not self.is_text:
            return value.astype(self.dtype)
        return value

    def _array(self, value: Any) -> Array:
        """A NumPy array of a caller's value. Numbers and lists of Python get the declared type, where they fit."""
        try:
            array = np.asarray(value)
        except (ValueError, TypeError) as error:
            raise self._wrong(f"is no array ({error})") from error
        if array.dtype.kind in "USO":
            return array.astype(object)
        if hasattr(value, "dtype") or self.dtype is None or self.is_text:
            return array
        if array.size == 0 or array.dtype.kind == self.dtype.kind or jnp.issubdtype(self.dtype, jnp.inexact):
            return array.astype(self.dtype)
        return array

    def _require_dtype(self, dtype: Any) -> None:
        declared = self.dtype
        if declared is None or dtype in (declared, _32_BITS.get(declared, declared)):  # float64 equals None
            return
        raise self._wrong(f"is an array of {dtype}")

    def _require_shape(self, shape: tuple[int, ...]) -> None:
        if self.shape is None:
            return
        if len(shape) != len(self.shape):
            raise self._wrong(f"has shape {list(shape)}, of {len(shape)} dimensions and not {len(self.shape)}")
        for axis, (size, declared) in enumerate(zip(shape, self.shape, strict=True)):
            if isinstance(declared, int) and size != declared:
                raise self._wrong(f"has shape {list(shape)}, so dimension {axis} is {size} and not {declared}")

    def _wrong(self, what: str) -> OnnxError:
        return OnnxError(f"input '{self.name}' {what}: the model declares {self}")


def narrowed(what: str, value: Any) -> Any:
    """An array as JAX's. Args: what: it is, in words. Raises: OnnxError for integers that would lose bits, because 64-bit types are off."""
    if isinstance(value, SequenceValue):
        return SequenceValue(narrowed(what, element) for element in value)
    if not isinstance(value, np.ndarray) or value.dtype == TEXT:
        return value
    half = _HALVES.get(value.dtype)
    if half is not None and not jax.config.jax_enable_x64 and value.size:  # pyrefly: ignore[missing-attribute]
        bounds = np.iinfo(half)
        least, most = value.min(), value.max()
        if least < bounds.min or most > bounds.max:
            beyond = least if least < bounds.min else most
            raise OnnxError(
                f"{what} has {beyond}, which {half} cannot hold: without jax.enable_x64 JAX has no {value.dtype}. Call the model "
                "itself, model(...), or model.run({...}), or enable 64-bit types"
            )
    return jnp.asarray(value, jax_dtype(value.dtype))  # the dtype by name: JAX remembers an array's from when 64-bit types were on


def specs_of(values: Iterable[onnx.ValueInfoProto]) -> tuple[ValueSpec, ...]:
    """What a graph declares of its inputs or outputs. Raises: OnnxError for a type that ONNX does not have."""
    return tuple(_spec(value.name, value.type) for value in values)


def _spec(name: str, declared: onnx.TypeProto) -> ValueSpec:
    kind = declared.WhichOneof("value")
    match kind:
        case None:
            return ValueSpec(name=name, kind="tensor", dtype=None, shape=None)
        case "tensor_type":
            return _tensor_spec(name, declared.tensor_type)
        case "sequence_type" | "optional_type":
            inner = declared.sequence_type.elem_type if kind == "sequence_type" else declared.optional_type.elem_type
            spec = _spec(name, inner)
            outer: Kind = "sequence" if kind == "sequence_type" else "optional"
            return ValueSpec(name=name, kind=outer, dtype=spec.dtype, shape=spec.shape)
        case "map_type":
            return ValueSpec(name=name, kind="map", dtype=None, shape=None)
        case _:
            raise OnnxError(f"'{name}' is a {kind}, which is not supported")


def _tensor_spec(name: str, declared: onnx.TypeProto.Tensor) -> ValueSpec:
    shape = None
    if declared.HasField("shape"):
        shape = tuple(_size(size) for size in declared.shape.dim)
        if any(isinstance(size, int) and size < 0 for size in shape):
            shape = tuple(None if isinstance(size, int) and size < 0 else size for size in shape)
    try:
        dtype = helper.tensor_dtype_to_np_dtype(declared.elem_type) if declared.elem_type else None
    except KeyError:
        raise OnnxError(f"'{name}' has an element type of number {declared.elem_type}, which ONNX does not have") from None
    return ValueSpec(name=name, kind="tensor", dtype=dtype, shape=shape)


def _size(size: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if size.WhichOneof("value") == "dim_value":
        return size.dim_value
    return size.dim_param or None
