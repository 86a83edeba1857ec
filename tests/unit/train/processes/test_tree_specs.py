"""Trees of shapes and dtypes as text: they come again as they were, and only registered classes are called."""

import base64
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import export

from tilestep.train.processes.messages import decode, encode
from tilestep.train.processes.tree_specs import decoded, encoded

_jax: Any = jax


class Pair(NamedTuple):
    left: Any
    right: Any = None


class Padded:
    def __init__(self, data: Any, length: int) -> None:
        self.data, self.length = data, length


class Unregistered(NamedTuple):
    x: Any


class Elsewhere(NamedTuple):
    x: Any


export.register_namedtuple_serialization(Pair, serialized_name="test_tree_specs.Pair")
_jax.tree_util.register_pytree_node(
    Padded, lambda padded: ((padded.data,), padded.length), lambda length, children: Padded(*children, length)
)
export.register_pytree_node_serialization(
    Padded,
    serialized_name="test_tree_specs.Padded",
    serialize_auxdata=lambda length: str(length).encode(),
    deserialize_auxdata=lambda data: int(data),
)
KEYS = [_jax.eval_shape(lambda impl=impl: _jax.random.key(0, impl=impl)).dtype for impl in ("threefry2x32", "rbg", "unsafe_rbg")]
LEAVES = st.builds(
    jax.ShapeDtypeStruct,
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.sampled_from([np.float32, np.int32, np.bool_, np.complex64, jnp.bfloat16, jnp.float8_e4m3fn, jnp.int4, *KEYS]),
)
TREES = st.recursive(
    LEAVES | st.none(),
    lambda trees: (
        st.lists(trees, max_size=3)
        | st.lists(trees, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), trees, max_size=3)
        | st.builds(Pair, trees, trees)
        | st.builds(Padded, trees, st.integers(0, 9))
    ),
    max_leaves=6,
)


@settings(max_examples=25)
@given(TREES)
def test_a_tree_comes_again_as_it_was(tree: Any) -> None:
    again = decoded(decode(encode(encoded(tree))))
    assert _jax.tree.flatten(again) == _jax.tree.flatten(tree)


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (Unregistered(jax.ShapeDtypeStruct((), np.float32)), "Unregistered.*register_namedtuple_serialization"),
        ({1: jax.ShapeDtypeStruct((), np.float32)}, "string keys.*dicts with text as keys"),
    ],
    ids=["class", "key"],
)
def test_the_sender_refuses_a_tree_that_cannot_be_sent(tree: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"an element cannot be sent to the other processes: (?s:.*){words}"):
        encoded(tree)


def test_a_class_that_is_not_registered_here_is_a_value_error() -> None:
    export.register_namedtuple_serialization(Elsewhere, serialized_name="test_tree_specs.Elsewhere")
    data = base64.b64decode(encoded(Elsewhere(jax.ShapeDtypeStruct((2,), np.float32))))
    assert b"test_tree_specs.Elsewhere" in data
    with pytest.raises(ValueError, match=r"an element that another process has sent cannot be read: (?s:.*)not_registered\.Elsewhere_"):
        decoded(base64.b64encode(data.replace(b"test_tree_specs.Elsewhere", b"not_registered.Elsewhere_")).decode())


def test_text_that_is_no_tree_are_a_value_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is not imported because text names it."""
    (tmp_path / "left_alone.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for text in ("", "left_alone:Pair", encoded(())[:-40], "A" * 100):
        with pytest.raises(ValueError, match="an element that another process has sent cannot be read"):
            decoded(text)
    assert "left_alone" not in sys.modules
