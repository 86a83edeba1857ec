"""The parts of an operation's scope, such as 'jit(step)/jvp(encoder/layer_0)/dot_general': a '/' inside of parentheses ends no part."""


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
    return "/".join(map(_first, parts_of(scope)[-2:]))


def told_scope(scope: str) -> str:
    """A scope in a sentence. XLA joins those of collectives that it combines: 'f/(a:b:c)', which is told as 'f/a and 2 more'."""
    return "/".join(map(_first, parts_of(scope)))


def _first(part: str) -> str:
    """The first of the scopes that are joined in a part, with how many more there are; the part if it has one alone."""
    if not (part.startswith("(") and part.endswith(")")):
        return part
    joined, depth = [""], 0
    for character in part[1:-1]:
        depth += (character == "(") - (character == ")")
        if character == ":" and not depth:
            joined.append("")
        else:
            joined[-1] += character
    return part if len(joined) == 1 or depth else f"{joined[0]} and {len(joined) - 1} more"
