"""The parts of an operation's scope, such as 'jit(step)/jvp(encoder/layer_0)/dot_general': a '/' inside of parentheses ends no part."""

from __future__ import annotations


def parts_of(scope: str) -> list[str]:
    """All parts, outermost first; as if there were no parentheses where they do not match."""
    parts: list[str] = []
    depth = 0
    for piece in scope.split("/"):
        if depth:
            parts[-1] += f"/{piece}"
        else:
            parts.append(piece)
        depth += piece.count("(") - piece.count(")")
        if depth < 0:
            break
    return scope.split("/") if depth else parts


def short_scope(scope: str) -> str:
    """The last two parts, which tell an operation from others: 'jvp(loss)/dot_general' of 'jit(step)/jvp(loss)/dot_general'."""
    return "/".join(parts_of(scope)[-2:])
