"""Regular expressions match as RE2's do, which ONNX Runtime has, and never hang."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.unit.onnx.ops.one_node import by_onnxruntime
from tilestep.regex import Regex

PATTERNS = r"""
a*b+?c? | (a|b)*abb | [a-c]{2,3} | \d+\.\d* | (?i)hello[a-c]\w | ^abc$ | a.c | (?s)a.c | \bfoo\b.* | [^a-z]+ | (?i)[^a]+ | [[:alpha:]]+
[[:^digit:]x]+ | \pL+ | \p{Lu}\P{Lu} | \Qa.b\E* | x{,3} | (?P<n>ab)+ | (?i:A)b | a(?i)b|c | \x41\x{42}\103 | () | (a*)* | (?:)*x | []a]+
[a\-z]+ | [\d\s]+ | a{0} | (a?){5}a{5} | (?m)^a$\n^b$ | \Aab\z | \D\W\S | [\]\\] | [+--] | é+ | (?-i)a | (?i)É | (?i)\P{Lu} | (?i)\p{Lu}
\12 | (?U)a+ | [a-c-e]+ | a||b | (|a)+ | [^\n]*\B. | \t?\v?\07?a | (?i)[[:upper:]]+ | [-a]+ | (?:a|(?:b))c{2,} | \p{^Lu}b
"""
REFUSED = r"(?=a) a** (a a) [a \1 *a (?P=n) a{1001} [z-a] \pX \c [[:foo:]] (?x)a a{2,1} \ (?<=a)b \Z a{2}{3} a{2}* \C \xZ [\c] \x{110000}"


def texts() -> list[str]:
    rng = random.Random(0)
    alphabet = "aabbcxyz019 .-]\\\nAÉéBHELlo_"
    fixed = "|a|b|abc|aabb|foo bar|foobar|A|Ab|aB|AB|ABC|a.b|a.bbb|x{,3}|abab|a\nb|a\nc|hellob_|HELLOb1|ÉÉ|é|éé|a1|1.5|12.|aaaaa|"
    fixed += "aaaaaaaaaa|]]a|a-z|x1|xx|\n"
    return fixed.split("|") + ["".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 6))) for _ in range(150)]


@pytest.mark.parametrize("pattern", [pattern for line in PATTERNS.strip().split("\n") for pattern in line.split(" | ")])
def test_matches_are_re2s(pattern: str) -> None:
    want = by_onnxruntime("RegexFullMatch", [np.array(texts(), object)], version=20, pattern=pattern, out_types=[9])[0]
    regex = Regex(pattern)
    assert [text for text, matches in zip(texts(), want.tolist(), strict=True) if regex.matches(text) != matches] == []


@pytest.mark.parametrize("pattern", REFUSED.split(" "))
def test_what_is_not_res_syntax_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="it must be in RE2's syntax"):
        Regex(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "message"),
    [
        ("(a+)+b", "a" * 20_000, ""),
        ("(a|a)*b", "a" * 20_000, ""),
        ("(a?){1000}", "a" * 3000, ""),
        ("((((((){1000}){1000}){1000}){1000}){1000}){1000}", "", "more than 100,000 parts"),
        ("(((a?){30}){30}){30}", "a", "more than 10,000 states"),
        ("(" * 200 + ")" * 200, "", "more than 100 groups"),
        (".*" * 500 + "b", "a" * 100_000, "takes the pattern '.*too long"),
    ],
)
def test_nothing_takes_long(pattern: str, text: str, message: str) -> None:
    if message:
        with pytest.raises(ValueError, match=message):
            Regex(pattern).matches(text)
    else:
        assert not Regex(pattern).matches(text)


def test_many_texts_together_take_no_longer() -> None:
    assert Regex("a+|b").matching(["a", "c", "aa", "b", "ab"]) == ["a", "aa", "b"]
    with pytest.raises(ValueError, match=r"so many texts take the pattern '\(a\?\)\{1000\}' too long"):
        Regex("(a?){1000}").matching("a" * 1000 for _ in range(1000))
