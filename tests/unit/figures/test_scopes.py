from __future__ import annotations

from tilestep.figures.reader.blocks import scopes_of
from tilestep.figures.scopes import parts_of, short_scope, told_scope


def test_a_slash_inside_of_parentheses_ends_no_part() -> None:
    for scope, parts in (
        ("jit(step)/jvp(loss)/dot_general", ["jit(step)", "jvp(loss)", "dot_general"]),
        ("jit(f)/transpose(jvp(enc/MatMul))/dot_general", ["jit(f)", "transpose(jvp(enc/MatMul))", "dot_general"]),
        ("jvp(a/b(c/d))/add", ["jvp(a/b(c/d))", "add"]),
        ("jvp(a/b/add", ["jvp(a", "b", "add"]),
        ("a)/(b/add", ["a)", "(b", "add"]),
        ("", [""]),
    ):
        assert parts_of(scope) == parts, scope


def test_a_short_scope_has_whole_names() -> None:
    assert short_scope("jit(f)/transpose(jvp(enc/MatMul))/dot_general") == "transpose(jvp(enc/MatMul))/dot_general"
    assert short_scope("add") == "add"


def test_names_within_one_transformation_are_scopes_as_others_are() -> None:
    assert scopes_of("jit(f)/transpose(jvp(enc/MatMul))/dot_general") == ("enc", "MatMul")


def test_joined_scopes_are_told_by_the_first() -> None:
    joined = "jit(step)/(transpose(jvp())/dot_general:jvp(a:b)/reduce_sum:add)"
    assert told_scope(joined) == "jit(step)/transpose(jvp())/dot_general and 2 more"
    assert short_scope(joined) == "jit(step)/transpose(jvp())/dot_general and 2 more"
    for alone in ("jit(f)/(a/b)", "jit(f)/jvp(a:b)", "jit(f)/add", "(", "()"):
        assert told_scope(alone) == alone
