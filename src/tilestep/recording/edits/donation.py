"""Donation: results take over the memory of arguments, and stay in the IPU's SRAM."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilestep.plan.steps import Program, Result
from tilestep.recording.edits.script import Change, ImpossibleEditError, Script, unused_number, used, using, values_made_by
from tilestep.sim.calls import Call, Dispatch, Forget, Put


def donated(key: int, arguments: Sequence[int]) -> Change:
    """The edit that donates arguments of a program whose results of their shapes take over their memory, as JAX pairs them.

    Args:
        key: of the program.
        arguments: their positions.

    The edit raises ImpossibleEditError if no result can take over an argument's memory, or a donated value is used again.
    """

    def change(script: Script) -> Script:
        program = script.programs[key]
        pairs = pairs_of(program, arguments)
        if len(pairs) < len(arguments):
            raise ImpossibleEditError(f"program '{program.name}' has not as many free results of those shapes as arguments to donate")
        _require_last_use(script.calls, key, arguments)
        return script.with_programs({key: _aliased(program, pairs)})

    return change


def kept(key: int, arguments: Sequence[int]) -> Change:
    """The edit that donates arguments and returns them unchanged: later calls take the returned value in the place of the old one.

    Args:
        key: of the program.
        arguments: their positions.

    The edit raises ImpossibleEditError if a value is two arguments of one call.
    """

    def change(script: Script) -> Script:
        program = script.programs[key]
        passed = [replace(_result_of(program, argument), index=len(program.results) + k) for k, argument in enumerate(arguments)]
        longer = replace(program, results=(*program.results, *passed))
        pairs = {argument: result.index for argument, result in zip(arguments, passed, strict=True)}
        return replace(script, calls=tuple(_returned(script.calls, key, arguments))).with_programs({key: _aliased(longer, pairs)})

    return change


def put_once(key: int, arguments: Sequence[int]) -> Change:
    """The edit that puts some arguments of a program once, before its first call, and passes the same values to all calls.

    Args:
        key: of the program.
        arguments: their positions. Their values must be the host's at each call.

    The edit raises ImpossibleEditError if a value was not put by the host.
    """

    def change(script: Script) -> Script:
        puts = {call.value for call in script.calls if isinstance(call, Put)}
        first: dict[tuple[int, int], int] = {}  # by argument and IPU
        same: dict[int, int] = {}  # by a value of a later call
        for call in script.calls:
            for place, row in enumerate(call.arguments) if isinstance(call, Dispatch) and call.key == key else ():
                for index in arguments:
                    kept_value = first.setdefault((index, place), row[index])
                    same.setdefault(row[index], same.get(kept_value, kept_value))
        if not puts.issuperset(same):
            raise ImpossibleEditError(f"an argument of program {key} was not put by the host")
        unmade = {value for value, kept in same.items() if value != kept}
        calls = (call for call in script.calls if not (isinstance(call, Put) and call.value in unmade))
        calls = (call for call in calls if not (isinstance(call, Forget) and call.value in same))
        return replace(script, calls=tuple(using(call, same) for call in calls))

    return change


def donatable(calls: Sequence[Call], key: int, arguments: Sequence[int], *, more_follow: bool = False) -> tuple[int, ...]:
    """Those of some arguments whose values no call uses again after the program has taken them.

    Args:
        calls: in order.
        key: of the program.
        arguments: their positions.
        more_follow: whether other calls come behind these, so that a value may be used again unless it is forgotten. The program's last
            call does not matter then.
    """
    wanted, refused = set(arguments), set[int]()
    later: set[int] = set()  # values that are used by calls that come later
    forgotten: set[int] = set()  # by calls that come later
    is_last = True
    for call in reversed(calls):
        later.difference_update(values_made_by(call))
        if isinstance(call, Forget):
            forgotten.add(call.value)
        if isinstance(call, Dispatch) and call.key == key:
            for row in call.arguments:
                refused |= {index for index in wanted if row[index] in later or row.count(row[index]) > 1}
                if more_follow and not is_last:
                    refused |= {index for index in wanted if row[index] not in forgotten}
            is_last = False
        forgotten.difference_update(values_made_by(call))
        later.update(used(call))
    return tuple(index for index in arguments if index not in refused)


def pairs_of(program: Program, arguments: Sequence[int]) -> dict[int, int]:
    """Argument to result, as JAX pairs donated arguments with the results of their shape: in order, each result with the first left."""
    waiting: defaultdict[str, list[int]] = defaultdict(list)
    for argument in sorted(arguments):
        waiting[program.arguments[argument].shape].append(argument)
    pairs: dict[int, int] = {}
    for result in program.results:
        left = waiting.get(result.shape)
        if left and result.argument is None and not result.on_host:
            pairs[left.pop(0)] = result.index
    return pairs


def _aliased(program: Program, pairs: Mapping[int, int]) -> Program:
    taken = {result: argument for argument, result in pairs.items()}
    return replace(
        program,
        arguments=tuple(replace(a, result=pairs.get(a.index, a.result)) for a in program.arguments),
        results=tuple(replace(r, argument=taken.get(r.index, r.argument)) for r in program.results),
    )


def _result_of(program: Program, argument: int) -> Result:
    taken = program.arguments[argument]
    return Result(index=0, shape=taken.shape, size_bytes=taken.size_bytes, argument=None)


def _require_last_use(calls: Sequence[Call], key: int, arguments: Sequence[int]) -> None:
    left = donatable(calls, key, arguments)
    if len(left) < len(arguments):
        again = next(argument for argument in arguments if argument not in left)
        raise ImpossibleEditError(f"argument {again} of program {key} is used again after a call that would have donated it")


def _returned(calls: Sequence[Call], key: int, arguments: Sequence[int]) -> list[Call]:
    """The calls in which the program returns some arguments, and everybody takes the latest of the returned values."""
    newest: dict[int, int] = {}  # the value that the host program names -> what it has become
    number = unused_number(calls)
    changed: list[Call] = []

    for call in calls:
        match call:
            case Dispatch():
                rows = tuple(tuple(newest.get(value, value) for value in row) for row in call.arguments)
                results = call.results
                gone: list[int] = []
                if call.key == key:
                    longer: list[tuple[int, ...]] = []
                    for row, named, given in zip(rows, call.arguments, call.results, strict=True):
                        if any(row.count(row[index]) > 1 for index in arguments):
                            raise ImpossibleEditError(f"a value is two arguments of program {key}, so it cannot be donated")
                        passed = tuple(range(number, number - len(arguments), -1))
                        number -= len(arguments)
                        newest.update(zip((named[index] for index in arguments), passed, strict=True))
                        gone += [row[index] for index in arguments]
                        longer.append((*given, *passed))
                    results = tuple(longer)
                changed.append(call._replace(arguments=rows, results=results))
                changed += map(Forget, gone)
            case Forget(value):
                changed.append(Forget(newest.pop(value, value)))
            case _:
                changed.append(using(call, newest))
    return changed
