"""Plans of programs that were planned before in this process."""

import re
from collections import OrderedDict
from dataclasses import replace
from hashlib import sha256
from threading import Lock
from typing import Any, Final

from tilestep.collection import collection_paused
from tilestep.machine.spec import MachineSpec
from tilestep.options import PlanOptions
from tilestep.plan.lower import DEFAULTS, lower
from tilestep.plan.steps import Branch, Loop, Node, Program, Series
from tilestep.program.hlo import parse_hlo

_HEADER: Final = re.compile(r"HloModule [^\s,]+")
# The name of the function that was compiled. The scopes of its operations begin with it.
_OWN_NAME: Final = re.compile(r'op_name="(jit\([^()"]*\))/')
_ANY_NAME: Final = "\0"  # is in no text


class _Planned:
    """A plan, once it is made."""

    def __init__(self) -> None:
        self.lock = Lock()  # held while it is made
        self.program: Program | None = None
        self.own_name = ""  # of the function, in the scopes of the plan


class PlanCache:
    """Remembers the plans of the last programs: equal text, machine, number of IPUs and options give an equal plan.

    Args:
        programs: plans to remember at most.
    """

    def __init__(self, *, programs: int = 256) -> None:
        self._programs = programs
        self._plans: OrderedDict[tuple[bytes, MachineSpec, int, PlanOptions], _Planned] = OrderedDict()
        self._lock = Lock()

    def plan(self, text: str, machine: MachineSpec, *, name: str, num_ipus: int, options: PlanOptions = DEFAULTS) -> Program:
        """The same as `lower(parse_hlo(text), ...)`. The program's name, the module's and that of the function do not matter.

        Stages of a pipeline that are alike differ in these alone. While one is planned, a thread that asks for the same plan waits for it.

        Args:
            text: HLO of one device.
            machine: the machine to plan for.
            name: of the program, for reports.
            num_ipus: IPUs that run the program together.
            options: as for `lower`.

        Raises:
            HloError: if the text cannot be parsed.
            SettingsError: if the options do not suit the machine.
        """
        found = _OWN_NAME.search(text)
        own_name = found[1] if found else ""
        alike = text.replace(own_name, _ANY_NAME) if own_name else text
        key = (sha256(_HEADER.sub("HloModule", alike, count=1).encode()).digest(), machine, num_ipus, options)
        with self._lock:
            planned = self._plans.setdefault(key, _Planned())
            self._plans.move_to_end(key)
            while len(self._plans) > self._programs:
                self._plans.popitem(last=False)
        with planned.lock:
            if planned.program is None:
                with collection_paused():
                    planned.program = lower(parse_hlo(text), machine, name=name, num_ipus=num_ipus, options=options)
                planned.own_name = own_name
            known = planned.program
        if planned.own_name != own_name:
            known = _renamed(known, planned.own_name, own_name)
        return replace(known, name=name)


def _renamed(program: Program, name: str, other: str) -> Program:
    """The plan of the same function with another name."""
    alive = tuple((value.replace(name, other), size_bytes) for value, size_bytes in program.memory.alive)
    assumptions = tuple(sorted(each.replace(name, other) for each in program.assumptions))
    body = _renamed_steps(program.body, name, other)
    return replace(program, body=body, memory=replace(program.memory, alive=alive), assumptions=assumptions)


def _renamed_steps(node: Node, name: str, other: str) -> Any:
    match node:
        case Series():
            return Series(nodes=tuple(_renamed_steps(each, name, other) for each in node.nodes))
        case Loop():
            return replace(node, scope=node.scope.replace(name, other), body=_renamed_steps(node.body, name, other))
        case Branch():
            arms = tuple(_renamed_steps(arm, name, other) for arm in node.arms)
            return replace(node, scope=node.scope.replace(name, other), arms=arms)
        case _:
            return replace(node, scope=node.scope.replace(name, other))
