"""The settings of a sweep: the product of machines, IPUs, environment variables and values in the program's arguments."""

import argparse
import itertools
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tilestep.cli.program import InputProgram, Program, program_words
from tilestep.cli.run import environ_of
from tilestep.cli.usage import UsageError, values_of
from tilestep.messages import shown

MOST_SETTINGS: Final = 10_000
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PLACE: Final = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """One point of the product."""

    machine: str = ""  # machine of --machine; '': that of the environment
    ipus: int | None = None  # ipus of --ipus; None: the machine's own
    env: tuple[tuple[str, str], ...] = ()  # (name, value) of each variable of --env
    values: tuple[tuple[str, str], ...] = ()  # (name, value) of each name of --set

    def filled(self, word: str) -> str:
        """The word with this setting's value in place of each {name} that has one."""
        values = dict(self.values)
        return _PLACE.sub(lambda found: values.get(found[1], found[0]), word)

    def arguments_of(self, program: Program) -> Program:
        """The program with its arguments filled in."""
        return replace(program, arguments=tuple(map(self.filled, program.arguments)))

    def cells(self) -> dict[str, str]:
        """What the columns of the sweep say of it, by their names."""
        machine = {"machine": self.machine} if self.machine else {}
        return {**machine, **({} if self.ipus is None else {"ipus": str(self.ipus)}), **dict(self.env), **dict(self.values)}

    def command(self, program: Program, trip_count: int | None) -> str:
        """The command line that runs the program with it, for a shell."""
        words = ["tilestep", "run"]
        words += ["--machine", self.machine] if self.machine else []
        words += [] if self.ipus is None else ["--ipus", str(self.ipus)]
        words += [] if trip_count is None else ["--dry-run", "--trip-count", str(trip_count)]
        env = "".join(f"{name}={shlex.quote(value)} " for name, value in self.env)
        return env + shlex.join([*words, *program_words(self.arguments_of(program))])

    def environ(self, base: Mapping[str, str]) -> dict[str, str]:
        """The variables of its process, beside those of `base`. Raises: UsageError for one with a bad value."""
        options = argparse.Namespace(machine=self.machine or None, ipus=self.ipus, tiles=None, sync_pattern=None, simulated_ipus=None)
        own = dict(self.env)
        ours = environ_of(options, {**base, **own})
        both = sorted(own.keys() & ours.keys())
        if both:
            raise UsageError(f"--env {both[0]}: the sweep sets this variable itself (by --machine, by --ipus, or to have platform ipu)")
        return {**own, **ours}


def different_values(text: str) -> list[str]:
    """The parser of 'a,b,c'. Raises: argparse.ArgumentTypeError for a value that is empty or there twice."""
    values = values_of(text)
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise argparse.ArgumentTypeError(f"{shown(text)} has {shown(twice)} twice")
    return values


def named_values(text: str) -> tuple[str, list[str]]:
    """The parser of 'name=a,b,c'. Raises: argparse.ArgumentTypeError for another form."""
    name, equals, values = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(f"{shown(text)} must be NAME=VALUE,VALUE..., the name of letters, digits and _")
    return name, different_values(values)


def settings_of(
    program: Program,
    *,
    machines: Sequence[str],
    ipus: Sequence[int],
    env: Sequence[tuple[str, Sequence[str]]],
    values: Sequence[tuple[str, Sequence[str]]],
    items: str | None,
) -> list[SweepPoint]:
    """The product, in which the last option given changes fastest.

    Args: program: whose arguments have a {name} for each name of `values`. items: of --items, which may have one, too.

    Raises: UsageError for a name without a place, a place without a name, a name given twice, nothing to vary, and too many settings.
    """
    if isinstance(program, InputProgram):
        raise UsageError("the program is the standard input, which can be read once only: name a file, or give -m MODULE")
    names = [name for name, _ in values]
    for option, given in (("--env", [name for name, _ in env]), ("--set", names)):
        twice = next((name for name in given if given.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"{option} {twice} is given twice: give all its values in one, with commas between them")
    places = [name for word in program.arguments for name in _PLACE.findall(word)]
    unused = next((name for name in names if name not in places), None)
    if unused is not None:
        raise UsageError(
            f"--set {unused}: no argument of the program has {{{unused}}}; put it where the value goes, for example --{unused} {{{unused}}}"
        )
    unknown = next((name for name in (*places, *_PLACE.findall(items or "")) if name not in names), None)
    if unknown is not None:
        raise UsageError(f"{{{unknown}}} has no values: give them by --set {unknown}=VALUE,VALUE...")
    if not (machines or ipus or env or values):
        raise UsageError("nothing varies: give --machine, --ipus, --env or --set, with commas between the values")
    of_env, of_values = (list(itertools.product(*([(name, value) for value in found] for name, found in axis))) for axis in (env, values))
    axes = (machines or ("",), ipus or (None,), of_env, of_values)
    count = math.prod(map(len, axes))
    if count > MOST_SETTINGS:
        raise UsageError(f"the product has {count:,} settings, and a sweep at most {MOST_SETTINGS:,}: give fewer values")
    return [SweepPoint(machine=machine, ipus=number, env=env, values=values) for machine, number, env, values in itertools.product(*axes)]
