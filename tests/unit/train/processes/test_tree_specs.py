"""Trees of shapes and dtypes as data: they come again as they were, and nothing is imported or called that is no node of a tree."""

from __future__ import annotations

import collections
import dataclasses
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tilestep.train.processes.messages import decode, encode
from tilestep.train.processes.tree_specs import description_of, tree_of

_jax: Any = jax


def spec(*shape: int, dtype: Any = np.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


class Pair(NamedTuple):
    left: Any
    right: Any = None


class Outer:
    class Inner(NamedTuple):
        x: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Batch:
    pictures: Any
    name: str = dataclasses.field(metadata={"static": True}, default="train")
    labels: Any = None


@jax.tree_util.register_pytree_node_class
class Padded:
    def __init__(self, data: Any, length: Any) -> None:
        self.data, self.length = data, length

    def tree_flatten(self) -> Any:
        return (self.data,), {"length": self.length}

    @classmethod
    def tree_unflatten(cls, auxiliary: Any, children: Any) -> Any:
        return cls(*children, auxiliary["length"])


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass
class Unnamed:
    """A dataclass that JAX knows without its fields' names."""

    x: Any

    def tree_flatten(self) -> Any:
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> Any:
        return cls(*children)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Changed:
    """One that is not made by its fields."""

    x: Any

    def __init__(self, y: Any) -> None:
        self.x = y


@dataclasses.dataclass
class NoNode:
    x: Any


class ByHand(NamedTuple):
    """A named tuple that is another node to JAX: one child."""

    x: Any
    note: str


jax.tree_util.register_pytree_node(ByHand, lambda value: ((value.x,), value.note), lambda note, children: ByHand(*children, note))


def named(value: Any, most: int) -> str:
    """How a test is called: the same in each process that collects it."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:most]


TREES = [
    spec(),
    None,
    (),
    ((spec(2, 3), spec(0, dtype=np.int32)), {"b": spec(1), "a": [spec(dtype=np.bool_), None]}),
    {1: spec(), 2: {(0, "x"): spec()}},
    Pair(spec(1), Pair(spec(2))),
    Outer.Inner([spec()]),
    Batch(spec(4), "test", labels=(spec(5),)),
    Batch({"x": Pair(spec())}),
    Padded(Padded(spec(), 3), (1, [2.5, b"x", None])),
    collections.OrderedDict(b=spec(), a=spec(1)),
    collections.defaultdict(None, b=spec()),
    optax.adam(1e-3).init(jnp.zeros(3)),
    optax.chain(optax.clip(1.0), optax.masked(optax.sgd(0.1, momentum=0.9), (True, False))).init((jnp.zeros(3), jnp.zeros(2))),
    [spec(2, dtype=jnp.bfloat16), spec(dtype=jnp.float8_e4m3fn), spec(dtype=jnp.int4), spec(dtype=np.complex64)],
    [
        _jax.eval_shape(lambda impl=impl: _jax.random.split(_jax.random.key(0, impl=impl), 3))
        for impl in ("threefry2x32", "rbg", "unsafe_rbg")
    ],
]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: named(tree, 60))
def test_a_tree_comes_again_as_it_was(tree: Any) -> None:
    tree = _jax.tree.map(lambda leaf: spec(*leaf.shape, dtype=leaf.dtype), tree)
    again = tree_of(decode(encode(description_of(tree))))
    assert _jax.tree.flatten(again) == _jax.tree.flatten(tree)
    assert type(again) is type(tree)


class Unregistered(Exception):
    pass


def local_class() -> type:
    class Local(NamedTuple):
        x: Any

    return Local


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (
            local_class()(spec()),
            r"class .*:local_class\.<locals>\.Local of an element is not known by this name: define it at the top of a module",
        ),
        (
            jax.tree_util.Partial(len, spec()),
            r"Partial of an element .*: beside its arrays it has <built-in function len> of type builtins:",
        ),
        (
            collections.defaultdict(list, b=spec()),
            r"class collections:defaultdict of an .* it has <class 'list'> of type builtins:type\. Keys, static",
        ),
        (Padded(spec(), np.float32(1)), r"Padded of .* it has np\.float32\(1\.0\) of type numpy:float32"),
        (Batch(spec(), name=len), r"Batch of .* it has <built-in function len>"),  # type: ignore[arg-type]
        (Unnamed(spec()), r"Unnamed of .*: it is a dataclass, and JAX knows .* Register it with jax\.tree_util\.register_dataclass"),
        (Changed(spec()), r"Changed of an element cannot be"),
        (ByHand(spec(3), "kept"), r"ByHand of an element cannot be made of its 1 children"),  # XLA takes it for a plain named tuple
        ({Outer: spec()}, r"class builtins:dict of .* it has <class '.*Outer'>"),
    ],
    ids=lambda value: named(value, 40),
)
def test_the_sender_refuses_a_tree_that_cannot_be_sent(tree: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        description_of(tree)


LEAF = ("leaf", (), "float32")


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "os:path.join",
        "subprocess:Popen",
        "builtins:eval",
        "builtins:tuple",
        "builtins:dict",
        "builtins:NoneType",
        "builtins:int",
        f"{__name__}:NoNode",
        f"{__name__}:Unregistered",
        f"{__name__}:spec",
        f"{__name__}:jax.tree_util.Partial.__init__",
        f"{__name__}:absent",
        f"{__name__}:",
        f"{__name__}",
        "",
        ":",
        "absent.module:Class",
    ],
)
def test_what_is_no_node_is_not_called(name: str) -> None:
    for description in (("fields", name, {"x": LEAF}, {}), ("node", name, None, LEAF)):
        with pytest.raises(TypeError, match=r"is not known by this name"):
            tree_of(description)


@pytest.mark.parametrize(
    ("description", "words"),
    [
        (
            ("fields", f"{__name__}:Batch", {"no_such": LEAF}, {}),
            "Batch of an element cannot be called with its fields, no_such: .*unexpected keyword",
        ),
        (("fields", f"{__name__}:Batch", {}, {}), "Batch of an element cannot be called"),
        (("fields", f"{__name__}:Batch", {}, {3: 4}), "Batch of an element cannot be called"),
        (("fields", f"{__name__}:Pair", {"left": LEAF}, {"left": 1}), "Pair of an element cannot be called"),
        (("node", f"{__name__}:Batch", (), LEAF), "Batch of an element is not known"),  # XLA would read beyond its fields
        (("node", f"{__name__}:Padded", None, LEAF), "Padded of an element cannot be made of its 1 children"),
        (("node", f"{__name__}:Padded", {"length": 1}), "Padded of an element cannot be made of its 0 children"),
        (("node", "jax.tree_util:Partial", "no function", ("tuple",), ("dict", {})), "Partial of an element cannot be made"),
        (("node", "collections:OrderedDict", 3, LEAF), "OrderedDict of an element cannot be made"),
    ],
)
def test_a_node_that_is_another_one_here_is_a_type_error(description: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        tree_of(description)


@pytest.mark.parametrize(
    "description",
    [
        3,
        "leaf",
        (),
        ("leaf",),
        ("leaf", (), "O"),
        ("leaf", (), "object"),
        ("leaf", (), "i4,f8"),
        ("leaf", (), "str"),
        ("leaf", (), "void"),
        ("leaf", (), "datetime64"),
        ("leaf", (), "key<own>"),
        ("leaf", (-1,), "float32"),
        ("leaf", (2**63,), "float32"),
        ("leaf", (1.0,), "float32"),
        ("leaf", (True,), "float32"),
        ("dict", [LEAF]),
        ("tuple", 3),
        ("fields", "x:y", [], {}),
        ("set", LEAF),
    ],
    ids=repr,
)
def test_what_is_no_description_is_a_value_error(description: Any) -> None:
    with pytest.raises(ValueError, match=r"is no description|is no shape|is no dtype"):
        tree_of(description)


LONG = "\x1b[2J" * 100_000


@pytest.mark.parametrize(
    "description",
    [
        LONG,
        (LONG, [LONG] * 1000),
        ("leaf", (LONG,), "float32"),
        ("leaf", (), LONG),
        ("leaf", (), "x" * 100_000),
        ("fields", LONG, {}, {}),
        ("fields", f"{__name__}:Pair", {LONG: LEAF} | {f"x{number}": LEAF for number in range(1000)}, {}),
        ("fields", f"{__name__}:Pair", {}, {10**5000: 1}),
        ("node", LONG, None),
        ("node", f"{__name__}:Padded", {LONG: 1}, LEAF),
    ],
    ids=range(10),
)
def test_a_message_shows_a_bounded_part_of_a_description_in_printable_characters(description: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        tree_of(description)
    assert len(str(caught.value)) < 1200
    assert str(caught.value).isprintable()


@jax.tree_util.register_pytree_node_class
class Growing:
    """A node that is rebuilt with one child more, or with another auxiliary value."""

    def __init__(self, *children: Any, grows: bool = True) -> None:
        self.children, self.grows = children, grows

    def tree_flatten(self) -> Any:
        return self.children, self.grows

    @classmethod
    def tree_unflatten(cls, grows: Any, children: Any) -> Any:
        return cls(*children, *children[:1], grows=grows) if grows else cls(*children)


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (Growing(spec(2)), "2 arrays instead of 1"),
        (Growing(grows=False), r"the structure PyTreeDef\(.*True.*\) instead of PyTreeDef\(.*False.*\)"),
    ],
    ids=["children", "auxiliary"],
)
def test_the_sender_names_the_difference_of_a_node_that_is_not_rebuilt_alike(tree: Any, words: str) -> None:
    with pytest.raises(TypeError, match=rf"Growing of an element cannot be sent .*: rebuilt there it would have {words}\. Its __init__"):
        description_of(tree)


@pytest.mark.slow
@given(st.sampled_from(TREES[:12]), st.data())
@example(TREES[7], None)
def test_changed_bytes_are_refused_or_describe_another_tree(tree: Any, data: Any) -> None:
    message = bytearray(encode(description_of(tree)))
    places = range(len(message)) if data is None else [data.draw(st.integers(0, len(message) - 1)) for _ in range(3)]
    for place in places:
        before, message[place] = message[place], 0x74 if data is None else data.draw(st.integers(0, 255))
        try:
            again = tree_of(decode(bytes(message)))
        except (ValueError, TypeError):
            pass
        else:
            _jax.tree.flatten(again)
        if data is None:
            message[place] = before


def test_a_module_is_not_imported_because_a_description_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that nobody has imported, nor one that is imported when somebody looks at it."""
    for name in ("tilestep_test_unknown", "tilestep_test_lazy"):
        (tmp_path / f"{name}.py").write_text("import typing\nclass Pair(typing.NamedTuple):\n    x: int\n")
    monkeypatch.syspath_prepend(tmp_path)
    lazy = importlib.util.find_spec("tilestep_test_lazy")
    assert lazy is not None
    assert lazy.loader is not None
    lazy.loader = importlib.util.LazyLoader(lazy.loader)
    module = importlib.util.module_from_spec(lazy)
    monkeypatch.setitem(sys.modules, "tilestep_test_lazy", module)
    lazy.loader.exec_module(module)
    for name in ("tilestep_test_unknown:Pair", "tilestep_test_lazy:Pair"):
        for description in (("fields", name, {}, {}), ("node", name, None)):
            with pytest.raises(TypeError, match="is not known by this name"):
                tree_of(description)
    assert "tilestep_test_unknown" not in sys.modules
    assert "Pair" not in object.__getattribute__(module, "__dict__")
    assert tree_of(("fields", f"{__name__}:Pair", {"left": LEAF}, {})) == Pair(spec())
