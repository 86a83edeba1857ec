"""What a program was planned from, so that it can be planned again for its detail: who lives where and when, and from which line."""

import functools
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tilestep.machine.spec import MachineSpec
from tilestep.options import PlanOptions
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.jax_private.mlir import custom_call_target, set_attribute_int, text_without_locations, walk
from tilestep.plan import Liveness, Program, lower_in_detail
from tilestep.program import parse_hlo


@dataclass(frozen=True, kw_only=True)
class ProgramSource:
    """What a program was planned from."""

    name: str  # name of the program
    code: bytes  # StableHLO, as JAX sent it
    num_replicas: int  # copies of the program that run together
    num_partitions: int  # parts of each
    hlo: bytes  # HloModuleProto of one device
    options: PlanOptions  # options of the plan
    machine: MachineSpec  # machine that it was planned for

    @property
    def num_ipus(self) -> int:
        """IPUs that run the program together."""
        return self.num_replicas * self.num_partitions

    @functools.cached_property
    def fingerprint(self) -> str:
        """64 hexadecimal digits, equal for equal StableHLO, options and machine, also in another process.

        Lines of the user's source don't count, so a program is the same wherever it stands and whoever calls it. What a callback does is
        not known, so it does not count either.
        """
        with compat.make_context() as context:
            context.allow_unregistered_dialects = True
            module = compat.parse_program(self.code, context)
            walk(module, _forget_callback)
            text = text_without_locations(module)
        rest = f"\n{self.num_replicas} x {self.num_partitions}\n{self.options!r}\n{self.machine!r}"
        return sha256((text + rest).encode()).hexdigest()

    @functools.cached_property
    def lines(self) -> str:
        """Hexadecimal digits that change when a line of the user's source has moved."""
        return sha256(self.code).hexdigest()[:16]

    @property
    def text(self) -> str:
        """The HLO as text."""
        return compat.hlo_text(self.hlo)

    def detail(self, text: str | None = None) -> tuple[Program, Liveness]:
        """The program as it was planned, and what each value takes of the tiles' memory, and when. Plans it again.

        Args: text: the HLO, if it is at hand.
        """
        text = self.text if text is None else text
        return lower_in_detail(parse_hlo(text), self.machine, name=self.name, num_ipus=self.num_ipus, options=self.options)

    @functools.cached_property
    def kept_detail(self) -> tuple[Program, Liveness]:
        """The same, planned again once: of a program that does not fit, its own folder and the run's recording both have it."""
        return self.detail()


def _forget_callback(operation: Any) -> None:
    """Removes the number of a Python function, which is another one in every process."""
    target = custom_call_target(operation)
    if target is not None and "python_cpu_callback" in target:
        set_attribute_int(operation, "index", 0)
