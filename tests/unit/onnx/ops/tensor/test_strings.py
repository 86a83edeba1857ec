"""Text: what is not in onnx's own tests."""

import re
from typing import Any

import numpy as np
import pytest

from tests.unit.onnx.ops.one_node import by_onnxruntime, run_node
from tilestep.onnx.errors import OnnxError


def text(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, object)


def test_text_may_have_any_of_numpys_types() -> None:
    for x in (np.array(["a", "b"]), np.array([b"a", b"b"]), text("a", "b")):
        got = run_node("StringConcat", [x, text("c")], version=20)[0]
        assert got.tolist() == ["ac", "bc"]
        assert got.dtype == object


def test_concatenation_has_bounds() -> None:
    assert run_node("StringConcat", [text("a", "b").reshape(2, 1), text("c")], version=20)[0].tolist() == [["ac"], ["bc"]]
    long = text("x" * 9000)
    with pytest.raises(OnnxError, match=r"texts of up to 9,001 characters, \[100, 100\] of them, are too many"):
        run_node("StringConcat", [np.repeat(long, 100).reshape(100, 1), text(*"y" * 100)], version=20)


PATTERNS = (
    r"a*b+?c? | (a|b)*abb | (?i)hello[a-c]\w | ^abc$ | a.c | [^a-z]+ | [[:alpha:]]+ | \p{Lu}\P{Lu} | (?P<n>ab)+ | é+ | (?i)É | [^\n]*\B."
)


def test_patterns_match_as_in_onnx_runtime_and_take_no_longer_than_the_text() -> None:
    x = text(*["", "a", "abc", "aabb", "foo bar", "Ab", "ABC", "a\nb", "hellob_", "HELLOb1", "ÉÉ", "é", "éé", "5.", ""])
    for pattern in PATTERNS.split(" | "):
        want = by_onnxruntime("RegexFullMatch", [x], version=20, pattern=pattern, out_types=[9])[0]
        assert run_node("RegexFullMatch", [x], version=20, pattern=pattern)[0].tolist() == want.tolist()
    assert run_node("RegexFullMatch", [text("a" * 20_000)], version=20, pattern="(a|a)*b")[0].tolist() == [False]


def test_a_pattern_that_is_none_of_re2s_is_named() -> None:
    for pattern, reason in (
        ("(?=a)", r"invalid perl operator: \(\?="),
        ("(a", r"missing \): \(a"),
        ("(((a?){30}){30}){30}", "invalid repetition size"),
    ):
        with pytest.raises(OnnxError, match=rf"its pattern is '{re.escape(pattern)}', which must be in RE2's syntax \({reason}"):
            run_node("RegexFullMatch", [text("a")], version=20, pattern=pattern)


def test_n_grams_of_text_and_of_nothing() -> None:
    options = {
        "mode": "TF",
        "max_skip_count": 0,
        "min_gram_length": 2,
        "max_gram_length": 2,
        "ngram_counts": [0, 1],
        "ngram_indexes": [0, 2],
    }
    pool = {"pool_strings": ["a", "a", "b"]}
    assert run_node("TfIdfVectorizer", [text("a", "b", "a", "b")], version=9, **options, **pool)[0].tolist() == [0, 0, 2]
    numbers = options | {"pool_int64s": [1, 1, 2]}
    for way in ("known", "jit"):
        assert run_node("TfIdfVectorizer", [np.zeros((2, 0), np.int32)], way, version=9, **numbers)[0].shape == (2, 3)
    with pytest.raises(OnnxError, match=r"a result of \[1, "):
        run_node("TfIdfVectorizer", [np.zeros(3, np.int32)], version=9, **numbers | {"ngram_indexes": [0, 1 << 50]})
    with pytest.raises(OnnxError, match="n-grams of length 2 from 1 to 4 in a pool of 4 elements"):
        run_node("TfIdfVectorizer", [np.zeros(3, np.int32)], version=9, **numbers | {"pool_int64s": [1, 1, 2, 3]})
