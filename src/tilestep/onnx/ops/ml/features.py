"""Feature operators of the domain ai.onnx.ml: scalers, encoders, maps. A map is a dict of Python keys; text is known."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.convert import convert, fitting
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import Array, SequenceValue, has_room, is_traced, known, module_of
from tilestep.onnx.ops.tensor.strings import text_array, text_of

ML: Final = "ai.onnx.ml"
_F32: Final = np.dtype(np.float32)


def _is_text(x: Any) -> bool:
    return np.dtype(x.dtype).kind in "OUS"


def _one_of(**choices: Any) -> tuple[str, Any]:
    """The name and the value of the one attribute that is given. Raises: ValueError for none and for several."""
    given = [(name, value) for name, value in choices.items() if value is not None and len(value)]
    if len(given) != 1:
        raise ValueError(f"it needs one of {', '.join(choices)}, and has {', '.join(name for name, _ in given) or 'none'}")
    return given[0]


@op("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(call: Call, x: Any, indices: Any) -> Any:
    """The elements at the indices along the last axis. Of one axis it makes [1, indices]."""
    flat = indices.reshape(-1)
    if not x.shape or (not is_traced(flat) and bool(((flat < 0) | (flat >= x.shape[-1])).any())):
        raise ValueError(f"indices {known(flat, '').tolist()} along the last axis of {list(x.shape)}")
    taken = module_of(x, flat).take(x, flat, axis=-1)
    return taken if x.ndim > 1 else taken.reshape(1, -1)


@op("Binarizer", domain=ML)
def binarizer(call: Call, x: Any, *, threshold: float = 0.0) -> Any:
    """1 where an element is above the threshold, else 0."""
    return (x > threshold).astype(x.dtype)


@op("Scaler", domain=ML)
def scaler(call: Call, x: Any, *, offset: Sequence[float] = (), scale: Sequence[float] = ()) -> Any:
    """(x - offset) x scale, as float32. Each has a number for each feature of [N, features], or one for all."""
    for name, values in (("offset", offset), ("scale", scale)):
        if len(values) > 1 and len(values) != x.shape[-1]:
            raise ValueError(f"{name} has {len(values)} numbers, and needs 1 or {x.shape[-1]}")
    shifted = convert(x, _F32) - np.asarray(offset or [0.0], np.float32)
    return shifted * np.asarray(scale or [1.0], np.float32)


@op("Normalizer", domain=ML)
def normalizer(call: Call, x: Any, *, norm: str = "MAX") -> Any:
    """Each row divided by its largest element, the sum of its absolute values, or the root of the sum of its squares, unless that is 0."""
    x = jnp.asarray(convert(x, _F32))
    axis = 0 if x.ndim == 1 else 1
    if norm == "MAX":
        divisor = x.max(axis, keepdims=True)
    elif norm == "L1":
        divisor = abs(x).sum(axis, keepdims=True)
    elif norm == "L2":
        squares = (x * x).sum(axis, keepdims=True)
        divisor = jnp.sqrt(jnp.where(squares == 0, 1, squares))
    else:
        raise ValueError(f"norm '{norm}', which must be 'MAX', 'L1' or 'L2'")
    return x / jnp.where(divisor == 0, 1, divisor)


@op("Imputer", domain=ML)
def imputer(
    call: Call,
    x: Any,
    *,
    imputed_value_floats: Sequence[float] = (),
    imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Any:
    """The input with other elements in place of those that equal a value, which may be NaN: one for all, or one for each feature."""
    module, floats = module_of(x), jnp.issubdtype(x.dtype, jnp.floating)
    values = imputed_value_floats if floats else imputed_value_int64s
    if len(values) not in (1, x.shape[-1]):
        raise ValueError(f"it has {len(values)} values for elements of {x.dtype}, and needs 1 or {x.shape[-1]}")
    if floats and np.isnan(replaced_value_float):
        missing = module.isnan(x)
    else:
        missing = x == (replaced_value_float if floats else replaced_value_int64)
    return module.where(missing, np.asarray(values, x.dtype), x)


@op("FeatureVectorizer", domain=ML)
def feature_vectorizer(call: Call, *inputs: Any, inputdimensions: Sequence[int] = ()) -> Any:
    """The features of all inputs [N, features] beside each other, as float32. An input of one axis is one row."""
    rows = [x.reshape(1, -1) if x.ndim == 1 else x for x in inputs]
    widths = [x.shape[1] for x in rows]
    if inputdimensions and list(inputdimensions) != widths:
        raise ValueError(f"inputdimensions are {list(inputdimensions)}, and the inputs have {widths}")
    return module_of(*rows).concatenate([convert(x, _F32) for x in rows], 1)


@op("OneHotEncoder", domain=ML)
def one_hot_encoder(call: Call, x: Any, *, cats_int64s: Sequence[int] = (), cats_strings: Sequence[str] = (), zeros: int = 1) -> Any:
    """On a new last axis 1 at the place of the element's category, else 0. Floats are truncated. Others have zeros only, or are refused."""
    name, categories = _one_of(cats_int64s=cats_int64s, cats_strings=cats_strings)
    if (name == "cats_strings") != _is_text(x):
        raise ValueError(f"it has {name}, and its input is {x.dtype}")
    if _is_text(x):
        hot = text_of(x)[..., None] == np.asarray(categories, object)
    else:
        whole = convert(x, np.int64)
        hot = whole[..., None] == fitting(np.asarray(categories, np.int64))
        if jnp.issubdtype(x.dtype, jnp.floating):
            hot = hot & (x == x)[..., None]  # NaN has no category
    if not zeros and not known(hot, "whether all elements have a category").any(-1).all():
        raise ValueError("an element has no category")
    return hot.astype(np.float32)


@op("CategoryMapper", domain=ML)
def category_mapper(
    call: Call,
    x: Any,
    *,
    cats_int64s: Sequence[int] = (),
    cats_strings: Sequence[str] = (),
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Any:
    """The number of each text in a table, or the text of each number."""
    if len(cats_int64s) != len(cats_strings):
        raise ValueError(f"it has {len(cats_int64s)} numbers and {len(cats_strings)} texts, and needs as many")
    texts = np.asarray(cats_strings, object)
    numbers = np.asarray(cats_int64s, np.int64)
    if _is_text(x):
        return _looked_up(x, texts, numbers, np.int64(default_int64), last=False)
    return _looked_up(x, numbers, texts, default_string, last=False)


@op("LabelEncoder", domain=ML)
def label_encoder_1(
    call: Call, x: Any, *, classes_strings: Sequence[str] = (), default_int64: int = -1, default_string: str = "_Unused"
) -> Any:
    """The place of each text in a list, or the text at each place."""
    return category_mapper(
        call,
        x,
        cats_int64s=range(len(classes_strings)),
        cats_strings=classes_strings,
        default_int64=default_int64,
        default_string=default_string,
    )


@op("LabelEncoder", domain=ML, since=2)
def label_encoder_2(
    call: Call,
    x: Any,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Any = None,
    keys_floats: Sequence[float] = (),
    keys_int64s: Sequence[int] = (),
    keys_strings: Sequence[str] = (),
    keys_tensor: Any = None,
    values_floats: Sequence[float] = (),
    values_int64s: Sequence[int] = (),
    values_strings: Sequence[str] = (),
    values_tensor: Any = None,
) -> Any:
    """The value of each element's key in a table, else the default; NaN may be a key. Of equal keys the last counts from version 4 on."""
    keys = _table(*_one_of(keys_floats=keys_floats, keys_int64s=keys_int64s, keys_strings=keys_strings, keys_tensor=keys_tensor))
    name, given = _one_of(
        values_floats=values_floats, values_int64s=values_int64s, values_strings=values_strings, values_tensor=values_tensor
    )
    values = _table(name, given)
    if len(keys) != len(values):
        raise ValueError(f"it has {len(keys)} keys and {len(values)} values")
    kind = values.dtype.kind
    default: Any = {"O": default_string, "f": default_float}.get(kind, default_int64)
    if default_tensor is not None:
        default = default_tensor.reshape(())[()]
    return _looked_up(x, keys, values, default, last=call.version >= 4)


def _table(name: str, values: Any) -> Array:
    """The array of an attribute, whose name ends with its type."""
    kind = {"floats": np.float32, "int64s": np.int64, "strings": object}.get(name.rpartition("_")[2])
    return (text_of(values) if _is_text(values) else values).reshape(-1) if kind is None else np.asarray(values, kind)


def _looked_up(x: Any, keys: Array, values: Array, default: Any, *, last: bool) -> Any:
    """The values of the keys that equal the elements. Args: last: whether the last of equal keys counts, and not the first."""
    if _is_text(x) != _is_text(keys):
        raise ValueError(f"its keys are {keys.dtype}, and its input is {x.dtype}")
    order = slice(None) if last else slice(None, None, -1)
    keys, values = keys[order], values[order]  # now the last counts
    if _is_text(keys) or _is_text(values):
        table = {_key(key): value for key, value in zip(keys.tolist(), values.tolist(), strict=True)}
        elements = text_of(x) if _is_text(x) else known(x, "the keys, because text")
        found = [table.get(_key(element), default) for element in elements.ravel().tolist()]
        if _is_text(values):
            return text_array([str(value) for value in found], elements.shape)
        return np.asarray(found, values.dtype).reshape(elements.shape)
    sorted_keys, places = np.unique(keys[::-1], return_index=True)
    taken = fitting(values[::-1][places])
    module = module_of(x)
    position = module.clip(module.searchsorted(fitting(sorted_keys), x), 0, max(0, len(keys) - 1))
    position = module.minimum(position, len(sorted_keys) - 1)
    key = module.asarray(fitting(sorted_keys))[position]
    found = (key == x) | ((key != key) & (x != x))
    return module.where(found, module.asarray(taken)[position], np.asarray(default, taken.dtype))


def _key(value: Any) -> Any:
    """A key of a dict, the same one for every NaN."""
    return "NaN" if isinstance(value, float) and value != value else (value,)


@op("ZipMap", domain=ML)
def zip_map(call: Call, x: Any, *, classlabels_int64s: Sequence[int] = (), classlabels_strings: Sequence[str] = ()) -> Any:
    """A sequence of maps, one for each row of [N, keys], from the keys to the elements."""
    _, keys = _one_of(classlabels_int64s=classlabels_int64s, classlabels_strings=classlabels_strings)
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    if rows.shape[1] != len(keys):
        raise ValueError(f"it has {len(keys)} keys, and its input {rows.shape[1]} columns")
    return SequenceValue({key: row[i] for i, key in enumerate(keys)} for row in rows)


@op("DictVectorizer", domain=ML)
def dict_vectorizer(
    call: Call, x: Mapping[Any, Any], *, int64_vocabulary: Sequence[int] = (), string_vocabulary: Sequence[str] = ()
) -> Any:
    """The elements of a map in the order of a vocabulary, and zeros for keys that it doesn't have: [1, vocabulary]."""
    _, vocabulary = _one_of(int64_vocabulary=int64_vocabulary, string_vocabulary=string_vocabulary)
    elements = _elements(x)
    if not elements:
        raise ValueError("its map is empty, so that its type is not known")
    unknown = set(elements) - set(vocabulary)
    if unknown:
        raise ValueError(f"its map has the key {sorted(unknown)[0]!r}, which the vocabulary doesn't have")
    first = next(iter(elements.values()))
    if _is_text(first):
        return text_array([str(elements.get(key, "")) for key in vocabulary], (1, len(vocabulary)))
    module = module_of(elements)
    nothing = module.zeros((), first.dtype)
    return module.stack([elements.get(key, nothing).reshape(()) for key in vocabulary])[None]


@op("CastMap", domain=ML)
def cast_map(call: Call, x: Mapping[int, Any], *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1) -> Any:
    """The elements of a map in the order of its keys ("DENSE"), or at the places that they name among `max_map` ("SPARSE"): [1, n]."""
    kinds = {"TO_FLOAT": np.dtype(np.float32), "TO_INT64": np.dtype(np.int64), "TO_STRING": np.dtype(object)}
    if cast_to not in kinds or map_form not in ("DENSE", "SPARSE"):
        raise ValueError(f"cast_to '{cast_to}', map_form '{map_form}'")
    dtype = kinds[cast_to]
    elements = {key: convert(value, dtype) for key, value in sorted(_elements(x).items())}
    if map_form == "SPARSE":
        if any(not 0 <= key < max_map for key in elements) or not has_room([max_map], np.float64):
            raise ValueError(f"its map has the keys {[*elements][:10]}, and max_map is {max_map}")
        nothing = np.asarray("" if cast_to == "TO_STRING" else 0, dtype)
        elements = {key: elements.get(key, nothing) for key in range(max_map)}
    if cast_to == "TO_STRING":
        return text_array([str(value) for value in elements.values()], (1, len(elements)))
    module = module_of(elements)
    return module.stack([module.asarray(value).reshape(()) for value in elements.values()])[None]


def _elements(x: Any) -> dict[Any, Any]:
    """The arrays of a map, by key. Raises: ValueError if it is none."""
    if not isinstance(x, Mapping):
        raise ValueError("its input is not a map")
    entries: dict[Any, Any] = dict(x)
    return {
        key: np.asarray(value, object if isinstance(value, str) else None) if isinstance(value, str | int | float) else value
        for key, value in entries.items()
    }
