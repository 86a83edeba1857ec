"""What an IPU loads: programs and groups of them; advice on single operations outside of jit, and on copies of arrays of the host."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Line
from tilestep.advice.ipus.limits import PRODUCTS
from tilestep.advice.phrases import AS_ONE, CPU_DEFAULT, CPU_FREE, STAGE, STAGE_MAKERS, group_text, shares_text
from tilestep.advice.proposal import Way
from tilestep.advice.user_code.source_lines import in_loop, jittable_at, yields_at
from tilestep.figures.quantities import names_text, share_text
from tilestep.figures.records import Figures, Origin
from tilestep.plan.steps import Program, Superstep, leaves
from tilestep.recording.edits.relocate import merged, on_cpu, passed_straight


@dataclass(frozen=True, kw_only=True)
class LoadedUnit:
    """What an IPU keeps as one program: a program, or a group of them. `cycles` are those of its loads."""

    label: str
    function: str  # the same for programs that are one function, called with other shapes
    origin: Origin
    loads: int
    runs: int
    cycles: int
    keys: tuple[int, ...]

    @property
    def name(self) -> str:
        """Without the key."""
        return self.label.partition(" #")[0]


def loaded(figures: Figures, keys: Collection[int]) -> list[LoadedUnit]:
    """Those with most loads first. The first member of a group that runs loads it; later ones bring their code.

    Args: keys: of the programs that an IPU loaded.
    """
    brought = [program for program in figures.programs if program.key in keys]
    functions = {key: f"{function.name} {number}" for number, function in enumerate(figures.reshaped) for key in function.keys}
    units = [
        LoadedUnit(
            label=figures.label(p.key),
            function=functions.get(p.key, figures.label(p.key)),
            origin=p.origin,
            loads=p.loads,
            runs=p.runs,
            cycles=p.cycles.load,
            keys=(p.key,),
        )
        for p in brought
        if p.origin != "group" and p.loads
    ]
    for group in figures.groups:
        members = [p for p in brought if p.group == group.name]
        members.sort(key=lambda p: p.cycles.load - p.cycles.total)  # the helper that is loaded first is not what the group is for
        if members:
            names = names_text(list(dict.fromkeys(p.name for p in members)), most=1)
            label = f"{group_text(group.name)} with {names}"
            units.append(
                LoadedUnit(
                    label=label,
                    function=label,
                    origin="group",
                    loads=sum(p.loads for p in members),
                    runs=max(p.runs for p in members),
                    cycles=sum(p.cycles.load for p in members),
                    keys=tuple(p.key for p in members),
                )
            )
    return sorted(units, key=lambda unit: (-unit.loads, -unit.cycles))


_STRAIGHT = "pass the NumPy array straight to the jitted function"
DIVIDES: Final = "jit__multi_slice"  # JAX's program that makes parts of an array for a sharding
_LEAST_NAMED_SHARE: Final = 0.3  # a function whose operations take less of the loads is not named
_LEAST_LOADS_SHARE: Final = 0.1  # a function that is loaded less often, next to that with most, can stay apart
Shares = tuple[tuple[Line, float], ...]


def staged(figures: Figures, units: Sequence[LoadedUnit], evidence: Evidence | None) -> list[LoadedUnit]:
    """The programs that only copy an array of the host, for programs of the user's."""
    found = [unit for unit in units if unit.origin == "jax" and unit.name == STAGE]
    if evidence is None or not found:
        return []
    users = {program.key for program in figures.programs if program.origin != "jax"}
    makers: dict[int, int] = {}
    taken, made = Counter[int](), Counter[int]()
    keys = {key for unit in found for key in unit.keys}
    for call in evidence.dispatches:
        if call.key in keys:
            made[call.key] += 1
            makers.update((value, call.key) for row in call.results for value in row)
        elif call.key in users:
            taken.update({makers.pop(value) for row in call.arguments for value in row if value in makers})
    return [unit for unit in found if all(2 * taken[key] > made[key] for key in unit.keys)]


def staged_text(units: Sequence[LoadedUnit], shares: Shares) -> str:
    """What a sentence goes on with about such copies."""
    lines = f" They are made by {shares_text(shares)}." if shares else ""
    names = names_text([unit.label for unit in units], most=3)
    return f"{STAGE_MAKERS} run {names}. {_STRAIGHT[0].upper()}{_STRAIGHT[1:]}, and nothing is loaded for it.{lines}"


def staged_ways(units: Sequence[LoadedUnit]) -> tuple[Way, ...]:
    """The edit that does without such copies."""
    keys = [key for unit in units for key in unit.keys]
    edit = f"{_STRAIGHT}, without jnp.asarray"
    return (Way(edit=edit, change=passed_straight(keys), how="about", basis="the array put at each call"),)


def taking_turns(figures: Figures, units: Sequence[LoadedUnit], evidence: Evidence | None) -> tuple[list[LoadedUnit], list[LoadedUnit]]:
    """Single operations that run between the runs of functions of the user's, at least at half of them, and these functions.

    Both are empty if the functions are not loaded again for it.
    """
    users = [unit for unit in loaded(figures, figures.loaded_on_busiest) if unit.origin == "user" and unit.loads > 1]
    if evidence is None or not users:
        return [], []
    users = [unit for unit in users if unit.loads >= _LEAST_LOADS_SHARE * users[0].loads]  # the first has most
    owned = {key for unit in users for key in unit.keys}
    keys = [call.key for call in evidence.dispatches]
    places = [place for place, key in enumerate(keys) if key in owned]
    if len(places) < 2:
        return [], []
    between = Counter(keys[places[0] : places[-1]])
    runs = max(sum(between[key] for key in unit.keys) for unit in users)
    turning = [unit for unit in units if 2 * sum(between[key] for key in unit.keys) >= runs]
    return (turning, users) if turning else ([], [])


def _unjitted(figures: Figures, shares: Shares, evidence: Evidence) -> str:
    """A sentence about the function that runs most single operations, if jit can be around it; '' if there is none."""
    runs = evidence.host_lines.runs
    own = {jittable_at(line) for program in figures.programs if program.origin != "jax" for line in runs.get(program.key, ())}
    parts: dict[tuple[str, Line], float] = {}
    for line, share in shares:
        if (function := jittable_at(line)) is not None and function not in own:
            parts[function] = parts.get(function, 0.0) + share
    (name, line), share = max(parts.items(), key=lambda item: item[1], default=(("", None), 0.0))
    return f" {name} ({line}) runs {share_text(share, 1)} of them outside of jit: jax.jit({name})." if share > _LEAST_NAMED_SHARE else ""


def single_text(
    figures: Figures,
    units: Sequence[LoadedUnit],
    users: Sequence[LoadedUnit],
    shares: Shares,
    evidence: Evidence | None,
    *,
    on_cpu: bool,
    copies: bool,
) -> str:
    """What a sentence goes on with about single operations.

    Args: users: functions with which they take turns. shares: of the lines that run them. on_cpu: whether they can run there. copies:
        whether one copies an array of the host.
    """
    reads = evidence is not None and take_results({key for unit in units for key in unit.keys}, evidence)
    turns = turns_text(units, users)
    elsewhere = f", or {_on_cpu('it' if len(units) == 1 else 'they', len(units), reads=reads)}" if on_cpu else ""
    where = f" They are made by {shares_text(shares)}." if shares else ""
    straight = f" {STAGE} is what {STAGE_MAKERS} run: {_STRAIGHT}." if copies else ""
    if any(unit.name == DIVIDES for unit in units):
        straight += f" {DIVIDES} divides arrays: have them made divided (out_shardings of what makes them, or jax.device_put)."
    if len(units) == 1:
        return (
            f"{units[0].label} is a program of its own. Put it into {_joint(users) or 'a jitted function with its neighbours'}{elsewhere}."
            + turns
            + straight
            + where.replace("They are", "It is")
        )
    names = names_text(list(dict.fromkeys(unit.name for unit in units)), most=2)
    count = f"{len(units):,} programs in {sum(unit.runs for unit in units):,} calls"
    jit = "" if evidence is None else _unjitted(figures, shares, evidence)
    return (
        f"each is a program of its own, {count} ({names}). Put "
        + (f"them into {_joint(users)}" if users else f"those that belong together, such as {_which(shares)}, into one jitted function")
        + f"{elsewhere}.{turns}{straight}{where}{jit}"
    )


def _which(shares: Shares) -> str:
    """Where most of them stand, by what their loads take."""
    looped = sum(share for line, share in shares if in_loop(line))
    return "the body of a loop" if 2 * looped > 1 else "a model's initialisation"


def _joint(users: Sequence[LoadedUnit]) -> str:
    return f"one jitted function with {names_text([unit.label for unit in users], most=2)}" if users else ""


def _on_cpu(named: str, count: int, *, reads: bool) -> str:
    take, them = ("takes", "it") if count == 1 else ("take", "them")
    if reads:
        return f"read what {named} {take} (jax.device_get), and run {them} under {CPU_DEFAULT}"
    return f"run {them if named == 'they' else named} under {CPU_DEFAULT}"


def take_results(keys: Collection[int], evidence: Evidence) -> bool:
    """Whether programs take results of others, which may be committed to an IPU: a default device does not move those."""
    return any(each.maker not in keys for key in keys for each in evidence.handed_over.get(key, ()))


def turns_text(turning: Sequence[LoadedUnit], users: Sequence[LoadedUnit]) -> str:
    """A sentence about single operations that take turns with functions of the user's; '' if there are no such functions."""
    if not users:
        return ""
    runs = "It runs" if len(turning) == 1 else "They run"
    owners = names_text([unit.label for unit in users], most=2)
    return f" {runs} between the runs of {owners}: each turn loads them all."


def single_ways(figures: Figures, units: Sequence[LoadedUnit], users: Sequence[LoadedUnit], evidence: Evidence) -> tuple[Way, ...]:
    """The edits that spare loads of single operations: one program in place of several, or none on the IPU.

    Args: users: functions with which they take turns.

    A line that also runs a function that the user jits, or yields to who may, stays there: its statement would take that along. So do
    operations with products among them, such as an evaluation: they are what an IPU is for.
    """
    keys = [key for unit in units for key in unit.keys]
    count = f"{len(keys):,} programs of single operations" if len(keys) > 1 else units[0].label
    elsewhere = _on_cpu(count, len(keys), reads=take_results(set(keys), evidence))
    ways: list[Way] = []
    if users:
        names = names_text([unit.label for unit in (*users, *units)], most=3)
        both = [key for unit in (*users, *units) for key in unit.keys]
        ways.append(Way(edit=f"put {names} into one jitted function", change=merged(both, by_turns=True), how="about", basis=AS_ONE))
    elif len(keys) > 1:
        ways.append(Way(edit=f"put {count} into one jitted function", change=merged(keys), how="about", basis=AS_ONE))
    runs = evidence.host_lines.runs
    own = {line for program in figures.programs if program.origin != "jax" for line in runs.get(program.key, ())}
    lines = {line for key in keys for line in runs.get(key, ())}
    stays = not own.isdisjoint(lines) or any(map(yields_at, lines)) or any(_multiplies(evidence.programs[key]) for key in keys)
    if not stays and all(_movable(key, evidence) for key in keys):
        ways.append(Way(edit=elsewhere, change=on_cpu(keys), how="about", basis=CPU_FREE))
    return tuple(ways)


def _movable(key: int, evidence: Evidence) -> bool:
    """Whether a program can run on the CPU. One of several devices goes where its arrays are, unless the host can read all of these."""
    program = evidence.programs[key]
    read = {each.index for each in evidence.handed_over.get(key, ()) if each.maker != key}
    return program.num_ipus == 1 or len(read) == len(program.arguments) > 0


def _multiplies(program: Program) -> bool:
    return any(isinstance(leaf, Superstep) and leaf.family in PRODUCTS for leaf in leaves(program.body))


def shares_of(units: Sequence[LoadedUnit], evidence: Evidence | None) -> Shares:
    """The lines that run some programs with their shares of the programs' loads, the most costly first; () if no line is known."""
    if evidence is None:
        return ()
    cycles: dict[Line, float] = {}
    for unit in units:
        for key in unit.keys:
            known = evidence.host_lines.runs.get(key)
            line = evidence.line_of_call(key)
            lines = known or ({} if line is None else {line: 1})
            for line, times in lines.items():
                cycles[line] = cycles.get(line, 0.0) + unit.cycles / len(unit.keys) * times / sum(lines.values())
    whole = sum(unit.cycles for unit in units)
    return tuple((line, cycles[line] / whole) for line in sorted(cycles, key=lambda line: -cycles[line])) if whole else ()
