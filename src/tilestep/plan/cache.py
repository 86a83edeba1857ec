"""Plans of programs that were planned before in this process."""

import re
from collections import OrderedDict
from dataclasses import replace
from hashlib import sha256
from threading import Lock

from tilestep.collection import collection_paused
from tilestep.machine.spec import MachineSpec
from tilestep.options import PlanOptions
from tilestep.plan.lower import DEFAULTS, lower
from tilestep.plan.steps import Program
from tilestep.program.hlo import parse_hlo

_HEADER = re.compile(r"HloModule [^\s,]+")


class PlanCache:
    """Remembers the plans of the last programs: equal text, machine, number of IPUs and options give an equal plan.

    Args:
        programs: plans to remember at most.
    """

    def __init__(self, *, programs: int = 256) -> None:
        self._programs = programs
        self._plans: OrderedDict[tuple[bytes, MachineSpec, int, PlanOptions], Program] = OrderedDict()
        self._lock = Lock()

    def plan(self, text: str, machine: MachineSpec, *, name: str, num_ipus: int, options: PlanOptions = DEFAULTS) -> Program:
        """The same as `lower(parse_hlo(text), ...)`. Neither the program's name nor the module's name in the text matters.

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
        key = (sha256(_HEADER.sub("HloModule", text, count=1).encode()).digest(), machine, num_ipus, options)
        with self._lock:
            known = self._plans.get(key)
            if known is not None:
                self._plans.move_to_end(key)
                return replace(known, name=name)
        with collection_paused():
            program = lower(parse_hlo(text), machine, name=name, num_ipus=num_ipus, options=options)
        with self._lock:
            self._plans[key] = program
            while len(self._plans) > self._programs:
                self._plans.popitem(last=False)
        return program
