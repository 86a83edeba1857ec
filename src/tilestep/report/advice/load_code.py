"""Code of the edits that spare loads: one shape, one program, a sharding from the begin, one function in place of several."""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping, Sequence
from typing import Final

from tilestep.plan.steps import Program
from tilestep.program.shapes import array_of
from tilestep.record.edits.script import used
from tilestep.report.advice.evidence import Evidence
from tilestep.report.advice.finding import Line
from tilestep.report.advice.jits import IMPORT, PARTIAL, Jit, jit_of, root_of
from tilestep.report.advice.written import COMPREHENSIONS, calls_of, changed, in_loop, last_name, names_around, statement
from tilestep.report.figures import ShapesProfile
from tilestep.sim.calls import Dispatch

_NUMBERS: Final[Mapping[str, str]] = {"f32": "float32", "s32": "int32", "f16": "float16", "bf16": "bfloat16", "u32": "uint32"}
_INSIDE: Final = (ast.Lambda, *COMPREHENSIONS)
_TO_MASK: Final = """\
# to be written: {function} takes {mask}, too, and leaves what is added out of its sums:
# jnp.where({mask}, each, 0).sum() / {mask}.sum() for each.mean()"""


def differing(evidence: Evidence, function: ShapesProfile) -> tuple[str, ...]:
    """The arguments whose shapes differ from call to call."""
    columns = zip(*(evidence.programs[key].arguments for key in function.keys), strict=True)
    return tuple(column[0].name for column in columns if len({argument.shape for argument in column}) > 1)


def padded(evidence: Evidence, function: ShapesProfile, largest: int, *, mask: bool | None) -> str:
    """Arguments filled up to their largest shapes, or one that has one dtype, where a function is called; '' if they have no names.

    Args: mask: whether the function has to know what was added.
    """
    if function.differs == "dtype":
        found = next((a for a in evidence.programs[largest].arguments if a.name == function.argument), None)
        shape = None if found is None else array_of(found.shape)
        dtype = None if shape is None else _NUMBERS.get(shape.dtype)
        return _with_argument(evidence, largest, function.argument, f"np.asarray({{}}, np.{dtype})") if dtype else ""
    pads: dict[str, str] = {}
    masks: dict[tuple[int, ...], tuple[str, str]] = {}  # by the sizes of a dimension: the first argument that has it, and its own part
    for name in differing(evidence, function):
        shapes = [array_of(a.shape) for key in function.keys for a in evidence.programs[key].arguments if a.name == name]
        dims = [shape.dims for shape in shapes if shape is not None]
        whole = dims[function.keys.index(largest)] if len(dims) == len(function.keys) else ()
        if not name.isidentifier() or any(len(each) != len(whole) for each in dims) or not whole:
            return ""
        columns = list(zip(*dims, strict=True))
        if any(max(column) > most for column, most in zip(columns, whole, strict=True)):
            return ""
        of = ["len({})" if place == 0 else f"{{}}.shape[{place}]" for place in range(len(whole))]
        widths = [
            f"(0, {most} - {length})" if len(set(column)) > 1 else "(0, 0)" for column, most, length in zip(columns, whole, of, strict=True)
        ]
        pads[name] = f"np.pad({{}}, ({', '.join(widths)}{',' * (len(widths) == 1)}))"
        for column, most, length in zip(columns, whole, of, strict=True):
            if len(set(column)) > 1:
                masks.setdefault(column, (name, f"np.arange({most}) < {length}"))
    if mask is False:
        return _with_padding(evidence, largest, pads)
    return _with_padding(evidence, largest, pads, mask=next(iter(masks.values()))) if len(masks) == 1 else ""


def one_program(evidence: Evidence, keys: Sequence[int]) -> tuple[str, Line | None]:
    """One program in place of several of equal shapes: without static arguments, jitted once, or with numbers of one dtype; its line."""
    program = evidence.programs[keys[0]]
    jit, line = jit_of(program), evidence.line_of_call(keys[0])
    try:
        static = [name for name in ("static_argnums", "static_argnames") if jit.option(name) is not None]
        places, names = jit.options("static_argnums"), jit.options("static_argnames")
    except (TypeError, ValueError):  # a variable
        return "", None
    if static:
        given = jit.positional
        own = [given[n] for n in places if isinstance(n, int) and -len(given) <= n < len(given)]
        arrays = ", ".join(f"np.asarray({name})" for name in (*own, *names))
        return f"{jit.with_options(dict.fromkeys(static))}  # and call it with {arrays or 'arrays'}", jit.line
    if jit.call is not None and not jit.is_decorator and jit.line is not None and line is not None and in_loop(jit.line, jit.call):
        name = jit.name or "f"

        def named(node: ast.expr) -> ast.expr | None:
            return ast.Name(name) if ast.unparse(node) == ast.unparse(jit.call or node) else None

        call = changed(statement(jit.line), named)
        return (f"{name} = {ast.unparse(jit.call)}  # once, before the loop\n{call}" if call else ""), jit.line
    scalars = [a for a in program.arguments if a.shape.endswith("[]") and a.name.isidentifier()]
    for argument in scalars:
        dtype = _NUMBERS.get(argument.shape.removesuffix("[]"))
        code = _with_argument(evidence, keys[0], argument.name, f"np.{dtype}({{}})") if dtype else ""
        if code:
            return code, line
    return "", None


def placed(program: Program, names: Sequence[str]) -> str:
    """Arguments of a pmap with the sharding that they have later; '' if its axis has no name, or they have none."""
    jit = jit_of(program)
    leaves = len(program.arguments)
    own = [jit.parameter(name, leaves) for name in names]
    if not jit.is_pmap or not all(own):
        return ""
    keywords = {} if jit.call is None else {each.arg: each.value for each in jit.call.keywords}
    axis = keywords.get("axis_name")
    if not isinstance(axis, ast.Constant):
        return ""
    devices = ast.unparse(keywords["devices"]) if "devices" in keywords else "jax.local_devices()"
    sharding = f"NamedSharding(Mesh(np.array({devices}), ({axis.value!r},)), PartitionSpec({axis.value!r}))"
    return "\n".join(f"{name} = jax.device_put({name}, {sharding})" for name in own)


def together(evidence: Evidence, keys: Sequence[int]) -> str:
    """One function that calls those of a turn, as values go between them; '' if that is not to be told from names and calls."""
    turn = _turn(evidence, keys)
    if len(turn) < 2:
        return ""
    jits = [jit_of(evidence.programs[call.key]) for call in turn]
    if any(len(jit.names) != 1 for jit in jits) or len({jit.names for jit in jits}) < len(jits):
        return ""
    made: dict[tuple[int, ...], str] = {}  # values -> what they are called
    inside: set[int] = set()  # values that calls of the turn give
    parameters: dict[str, tuple[int, ...]] = {}
    donated: list[str] = []
    rows: list[str] = []
    outer = _used_outside(evidence, turn)
    returned: list[str] = []
    for call, jit in zip(turn, jits, strict=True):
        program, values = evidence.programs[call.key], call.arguments[0]
        roots: dict[str, list[int]] = {}
        for argument in program.arguments:
            roots.setdefault(root_of(argument.name), []).append(argument.index)
        names: list[str] = []
        for root, indices in roots.items():
            of_root = tuple(values[index] for index in indices)
            name = made.get(of_root)
            if name is None:
                if not root.isidentifier() or inside & set(of_root) or parameters.get(root, of_root) != of_root:
                    return ""
                name = made[of_root] = root
                parameters[root] = of_root
                if all(program.arguments[index].result is not None for index in indices):
                    donated.append(root)
            names.append(name)
        results = _results(jit, call)
        if not results:
            return ""
        targets = [
            _fresh(f"{jit.names[0]}_{number}" if len(results) > 1 else f"{jit.names[0]}_result", parameters)
            for number in range(len(results))
        ]
        inside |= set(call.results[0])
        made |= dict(zip(results, targets, strict=True))
        returned += [target for of_target, target in zip(results, targets, strict=True) if outer & set(of_target)]
        rows.append(f"    {', '.join(targets)} = {jit.names[0]}({', '.join(names)})")
    if not returned:
        return ""
    head = f"@{jits[0].partial or PARTIAL}(jax.jit, donate_argnames={tuple(donated)!r})" if donated else "@jax.jit"
    head = f"{IMPORT}\n{head}" if donated and not jits[0].partial else head
    name = "_and_".join(jit.names[0] for jit in jits)
    return "\n".join([head, f"def {name}({', '.join(parameters)}):", *rows, f"    return {', '.join(returned)}"])


def _turn(evidence: Evidence, keys: Sequence[int]) -> list[Dispatch]:
    """The calls of each of some programs once, one after the other, half way through the history."""
    calls = [call for call in evidence.dispatches if call.key in keys]
    wanted = len(set(keys))
    for first in range(len(calls) // 2, len(calls) - wanted + 1):
        turn = calls[first : first + wanted]
        if len({call.key for call in turn}) == wanted and turn[0].key == calls[0].key:
            return turn
    return []


def _used_outside(evidence: Evidence, turn: Sequence[Dispatch]) -> set[int]:
    """Values that the host reads, and those that calls beside the turn take."""
    return {value for call in evidence.calls if call not in turn for value in used(call)}


def _results(jit: Jit, call: Dispatch) -> list[tuple[int, ...]]:
    """What a call gives, in the parts that the function returns; [] if that is unknown."""
    values = call.results[0]
    found = jit.returned
    if isinstance(found, ast.Tuple):
        return [(value,) for value in values] if len(found.elts) == len(values) else []
    return [tuple(values)] if found is not None else []


def _fresh(name: str, taken: Container[str], head: str = "new_") -> str:
    return name if name not in taken else f"{head}{name}"


def _with_padding(evidence: Evidence, key: int, pads: Mapping[str, str], *, mask: tuple[str, str] | None = None) -> str:
    """The lines that call a program with arguments filled up; '' if that is not one call.

    Args:
        pads: by parameter, what it becomes, such as 'np.pad({}, …)'.
        mask: a parameter, and what tells its own part from what is added, such as 'np.arange(32) < len({})'; None if none is needed.
    """
    jit, line = jit_of(evidence.programs[key]), evidence.line_of_call(key)
    found = statement(line)
    calls = calls_of(found, jit.names)
    if line is None or len(calls) != 1 or any(isinstance(each, ast.Starred) for each in calls[0].args):
        return ""
    [call] = calls
    given = dict(zip(jit.positional, call.args, strict=False)) | {each.arg: each.value for each in call.keywords if each.arg}
    if not pads.keys() <= given.keys():
        return ""
    texts = {name: ast.unparse(given[name]) for name in pads}
    if all(text.isidentifier() for text in texts.values()) and mask is None:
        forms = {text: ast.parse(pads[name].replace("{}", text), mode="eval").body for name, text in texts.items()}
        return changed(found, lambda node: _called_with(node, jit, forms))
    if found is None or any(isinstance(node, _INSIDE) and call in ast.walk(node) for node in ast.walk(found)):
        return ""  # what it is called with has its values there only
    taken = names_around(line)
    names = {name: text if text.isidentifier() else _fresh(name, taken, "padded_") for name, text in texts.items()}
    own = _fresh("mask", taken | {*jit.parameters}, "row_")
    forms = {text: ast.Name(names[name]) for name, text in texts.items()}
    more = () if mask is None else (ast.Name(own),)
    code = changed(found, lambda node: _called_with(node, jit, forms, more))
    rows = [f"{name} = {texts[parameter]}" for parameter, name in names.items() if name != texts[parameter]]
    if mask is not None:
        parameter, test = mask
        rows = [*_TO_MASK.format(function=jit.name or jit.names[0], mask=own).splitlines(), *rows]
        rows.append(f"{own} = {test.format(names[parameter])}")
    rows += dict.fromkeys(f"{name} = {pads[parameter].replace('{}', name)}" for parameter, name in names.items())
    return "\n".join([*rows, code]) if code else ""


def _called_with(node: ast.expr, jit: Jit, forms: Mapping[str, ast.expr], more: Sequence[ast.Name] = ()) -> ast.expr | None:
    """A call of a function with arguments in other forms, by what they were, and with more behind them; None if it is none."""
    if not isinstance(node, ast.Call) or last_name(node.func) not in jit.names:
        return None
    keywords = [ast.keyword(arg=each.arg, value=forms.get(ast.unparse(each.value), each.value)) for each in node.keywords]
    arguments = [forms.get(ast.unparse(each), each) for each in node.args]
    if keywords or len(arguments) < len(jit.positional):  # what comes behind them has to be named
        return ast.Call(func=node.func, args=arguments, keywords=[*keywords, *(ast.keyword(arg=each.id, value=each) for each in more)])
    return ast.Call(func=node.func, args=[*arguments, *more], keywords=keywords)


def _with_argument(evidence: Evidence, key: int, parameter: str, form: str) -> str:
    """The line that calls a program, with an argument in another form ('np.float32({})'); '' if that is not one call."""
    jit, line = jit_of(evidence.programs[key]), evidence.line_of_call(key)
    found = statement(line)
    calls = calls_of(found, jit.names)
    if len(calls) != 1 or parameter not in jit.positional:
        return ""
    place = jit.positional.index(parameter)
    if len(calls[0].args) <= place:
        return ""
    after = ast.parse(form.replace("{}", ast.unparse(calls[0].args[place])), mode="eval").body

    def edited(node: ast.expr) -> ast.expr | None:
        if not isinstance(node, ast.Call) or last_name(node.func) not in jit.names or len(node.args) <= place:
            return None
        return ast.Call(func=node.func, args=[*node.args[:place], after, *node.args[place + 1 :]], keywords=node.keywords)

    return changed(found, edited)
