"""Text. Its values are known, because JAX has no arrays of text: a program computes with it while it is made."""

import collections
import functools
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, Final

import jax.numpy as jnp
import numpy as np

from tilestep.messages import plain, shown
from tilestep.onnx.interpreter.convert import fitting
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import Array, has_room, is_traced, known

_CASES: Final[dict[str, Callable[[str], str]]] = {"NONE": lambda text: text, "LOWER": str.lower, "UPPER": str.upper}
_MODES: Final = ("TF", "IDF", "TFIDF")


def text_of(x: Any) -> Array:
    """An array of text with Python's strings as its elements. Raises: ValueError for other arrays."""
    array = known(x, "the text")
    if array.dtype.kind not in "OUS":
        raise ValueError(f"an input of {array.dtype}, which must be text")
    decoded = [text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in array.ravel()]
    return text_array(decoded, array.shape)


def text_array(texts: Sequence[str], shape: Sequence[int]) -> Array:
    """Strings as an array of a shape."""
    made = np.empty(len(texts), object)
    made[:] = texts
    return made.reshape(shape)


@op("StringConcat", since=20)
def string_concat(call: Call, x: Any, y: Any) -> Any:
    """Each element of x followed by that of y. Shapes broadcast as in NumPy."""
    first, second = text_of(x), text_of(y)
    shape = np.broadcast_shapes(first.shape, second.shape)
    longest = max(map(len, first.ravel()), default=0) + max(map(len, second.ravel()), default=0)
    if not has_room((*shape, longest), np.uint8) or not has_room(shape, np.int64):
        raise ValueError(f"texts of up to {longest:,} characters, {list(shape)} of them, are too many")
    return np.asarray(np.add(first, second), object)


@op("StringSplit", since=20)
def string_split(call: Call, x: Any, *, delimiter: str = "", maxsplit: int | None = None) -> tuple[Any, Any]:
    """The parts between delimiters on a new last axis, filled with empty text, and their numbers. Without one, white space splits."""
    texts = text_of(x)
    parts = [text.split(delimiter or None, -1 if maxsplit is None else maxsplit) for text in texts.ravel()]
    longest = max(map(len, parts), default=0)
    if not has_room((len(parts), longest), np.int64):
        raise ValueError(f"{len(parts):,} texts of up to {longest:,} parts are too many")
    filled = [part for found in parts for part in (*found, *[""] * (longest - len(found)))]
    return text_array(filled, (*texts.shape, longest)), np.array([len(found) for found in parts], np.int64).reshape(texts.shape)


@op("StringNormalizer", since=10)
def string_normalizer(
    call: Call,
    x: Any,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "en_US",
    stopwords: Sequence[str] = (),
) -> Any:
    """The text of shape [C] or [1, C] without stop words, in lower or upper case if asked. If nothing is left it is one empty text.

    Case changes as Unicode has it, whatever the locale.
    """
    texts = text_of(x)
    if texts.ndim not in (1, 2) or (texts.ndim == 2 and texts.shape[0] != 1):
        raise ValueError(f"its input has the shape {list(texts.shape)}, and needs [C] or [1, C]")
    if case_change_action not in _CASES:
        raise ValueError(f"case_change_action '{case_change_action}', which must be one of {', '.join(_CASES)}")
    compared = _CASES["NONE" if is_case_sensitive else "LOWER"]
    stops = set(map(compared, stopwords))
    left = [_CASES[case_change_action](text) for text in texts.ravel() if compared(text) not in stops] or [""]
    return text_array(left, (*texts.shape[:-1], len(left)))


@op("RegexFullMatch", since=20)
def regex_full_match(call: Call, x: Any, *, pattern: str) -> Any:
    """Whether a pattern in RE2's syntax matches each text as a whole, in time proportional to the text whatever the file's pattern is."""
    try:
        import re2  # few models have text
    except ImportError as error:
        raise ValueError(f"it needs google-re2 ({error}): pip install 'tilestep[onnx]'") from None
    options = re2.Options()
    options.log_errors = False
    try:
        regex = re2.compile(pattern, options)
    except re2.error as error:
        reason = bytes(*error.args).decode("utf-8", "replace")
        raise ValueError(f"its pattern is {shown(pattern)}, which must be in RE2's syntax ({plain(reason)})") from None
    texts = text_of(x)
    return np.array([regex.fullmatch(text) is not None for text in texts.ravel()], bool).reshape(texts.shape)


@op("TfIdfVectorizer", since=9)
def tf_idf_vectorizer(
    call: Call,
    x: Any,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] = (),
    pool_strings: Sequence[str] = (),
    weights: Sequence[float] = (),
) -> Any:
    """How often each row has each n-gram of a pool: [C] to [outputs] or [N, C] to [N, outputs], floats.

    The elements of an n-gram are up to `max_skip_count` others apart. "TF" counts, "IDF" gives the weight of those that occur, and
    "TFIDF" multiplies counts by weights.
    """
    if mode not in _MODES or not ngram_indexes or min(ngram_indexes) < 0 or not 1 <= min_gram_length <= max_gram_length:
        raise ValueError(
            f"mode '{mode}', lengths {min_gram_length} to {max_gram_length}, indexes from {min(ngram_indexes, default=None)} on"
        )
    width, batch = max(ngram_indexes) + 1, x.shape[0] if x.ndim == 2 else 1
    if x.ndim not in (1, 2) or not has_room((max(1, batch), width), np.float32):
        raise ValueError(f"its input has the shape {list(x.shape)}, and each row has {width:,} results")
    pool = list(_pool(pool_strings or pool_int64s, ngram_counts))
    if len(pool) != len(ngram_indexes) or (weights and len(weights) != len(pool)):
        raise ValueError(f"its pool has {len(pool)} n-grams, {len(ngram_indexes)} indexes and {len(weights)} weights")
    rows = (text_of(x) if pool_strings else x).reshape(batch, x.shape[-1])
    lengths = min_gram_length, min(max_gram_length, x.shape[-1])
    module = jnp if is_traced(x) else np
    counts = (_traced_counts if module is jnp else _counts)(rows, pool, lengths, max_skip_count)
    counts = module.minimum(counts, 1) if mode == "IDF" else counts
    scaled = counts if mode == "TF" or not weights else counts * np.asarray(weights, np.float32)
    result = _added(module, scaled, np.asarray(ngram_indexes), width)
    return result[0] if x.ndim == 1 else result


def _added(module: ModuleType, values: Any, columns: Array, width: int) -> Any:
    """Zeros to which each value is added in its column."""
    result = module.zeros((len(values), width), np.float32)
    if module is jnp:
        return result.at[:, columns].add(values)
    np.add.at(result.T, columns, values.T)
    return result


def _counts(rows: Any, pool: Sequence[tuple[Any, ...]], lengths: tuple[int, int], most_skipped: int) -> Any:
    """How often each row has each n-gram of the pool: [rows, n-grams]."""
    result = np.zeros((len(rows), len(pool)), np.float32)
    for row, elements in zip(result, np.asarray(rows).tolist(), strict=True):
        found = collections.Counter(_grams(elements, *lengths, most_skipped))
        row[:] = [found.get(gram, 0) for gram in pool]
    return result


def _traced_counts(rows: Any, pool: Sequence[tuple[Any, ...]], lengths: tuple[int, int], most_skipped: int) -> Any:
    """The same for traced integers."""
    by_length: list[Any] = [np.zeros((rows.shape[0], 0), np.float32)]
    for length in sorted(set(map(len, pool))):  # in the pool short ones come first
        grams = fitting(np.array([gram for gram in pool if len(gram) == length]))
        count = jnp.zeros((rows.shape[0], len(grams)), np.float32)
        for step in _steps(length, rows.shape[1], most_skipped) if lengths[0] <= length <= lengths[1] else ():
            places = rows.shape[1] - (length - 1) * step
            same = [rows[:, None, k * step : k * step + places] == grams[:, k, None] for k in range(length)] if places > 0 else []
            count += functools.reduce(jnp.logical_and, same).sum(-1, dtype=np.float32) if same else 0
        by_length.append(count)
    return jnp.concatenate(by_length, 1)


def _pool(elements: Sequence[Any], starts: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """The n-grams of a pool. Args: starts: where in it those of length 1, 2, ... begin."""
    for length, (start, end) in enumerate(zip(starts, [*starts[1:], len(elements)], strict=True), start=1):
        if not 0 <= start <= end <= len(elements) or (end - start) % length:
            raise ValueError(f"n-grams of length {length} from {start} to {end} in a pool of {len(elements)} elements")
        yield from (tuple(elements[at : at + length]) for at in range(start, end, length))


def _grams(elements: Sequence[Any], shortest: int, longest: int, most_skipped: int) -> Iterator[tuple[Any, ...]]:
    """The n-grams of a row, with each number of elements left out between neighbours."""
    for length in range(shortest, longest + 1):
        for step in _steps(length, len(elements), most_skipped):
            reach = (length - 1) * step
            yield from (tuple(elements[at : at + reach + 1 : step]) for at in range(len(elements) - reach))


def _steps(length: int, size: int, most_skipped: int) -> range:
    """The distances of neighbours in n-grams of this length; one element alone has no neighbours."""
    return range(1, (min(most_skipped, size) if length > 1 else 0) + 2)
