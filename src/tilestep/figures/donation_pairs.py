"""Arguments of a program that a result could take the place of."""

from collections import Counter

from tilestep.plan.steps import Program


def could_be_donated(program: Program) -> tuple[str, ...]:
    """Arguments that stream in at each call although a result of the same shape could take their memory."""
    free = free_results(program)
    names: list[str] = []
    for argument in program.arguments:
        if argument.result is None and not argument.on_host and free[argument.shape] > 0:
            free[argument.shape] -= 1
            names.append(argument.name)
    return tuple(names)


def may_be_states(program: Program) -> frozenset[int]:
    """Indices of the arguments that a result could take the place of: parameters, more likely than a batch."""
    names = could_be_donated(program)
    return frozenset(argument.index for argument in program.arguments if argument.name in names)


def free_results(program: Program) -> Counter[str]:
    """Shape to the number of results that take over no argument's memory, and so could."""
    return Counter(result.shape for result in program.results if result.argument is None and not result.on_host)
