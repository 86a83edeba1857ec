"""What a program was planned from, so that it can be planned again for its detail: who lives where and when, and from which line."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from tilestep.machine.spec import MachineSpec
from tilestep.options import PlanOptions
from tilestep.pjrt.jax_private import compat
from tilestep.plan import Liveness, Program, lower_in_detail
from tilestep.program import parse_hlo


@dataclass(frozen=True, kw_only=True)
class ProgramSource:
    """What a program was planned from.

    Attributes:
        name: of the program.
        fingerprint: hexadecimal; equal for equal StableHLO, options and machine, also in another process.
        hlo: HloModuleProto of one device.
        num_ipus: IPUs that run the program together.
        options: of the plan.
        machine: that it was planned for.
    """

    name: str
    fingerprint: str
    hlo: bytes
    num_ipus: int
    options: PlanOptions
    machine: MachineSpec

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


def fingerprint(code: bytes, *, num_replicas: int, num_partitions: int, options: PlanOptions, machine: MachineSpec) -> str:
    """64 hexadecimal digits. The lines of the user's source are a part of the code, so a program whose lines have moved is another one.

    Args: code: StableHLO, as JAX sent it.
    """
    return sha256(code + f"\n{num_replicas} x {num_partitions}\n{options!r}\n{machine!r}".encode()).hexdigest()
