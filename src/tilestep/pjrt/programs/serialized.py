"""Compiled programs as bytes, for JAX's compilation cache and for files that users keep.

The bytes hold XLA:CPU's serialised program, which is machine code: load only programs that you trust, as on every JAX platform.
The plan and its description are JSON, which is checked as it is read.
"""

import hashlib
import json
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from tilestep.errors import StoredError
from tilestep.machine.spec import MachineSpec
from tilestep.messages import plain, shortened, shown
from tilestep.options import PlanOptions
from tilestep.plan.serialized import dump_program, load_program
from tilestep.plan.steps import Program

_MAGIC = b"tilestep executable\n"
_SECTIONS = ("code", "options", "hlo", "values", "plan")


@dataclass(frozen=True, kw_only=True)
class Serialized:
    """The parts from which a compiled program is made again."""

    name: str
    machine: str  # `machine_id` of the machine that it was planned for
    plan_options: str
    counted: tuple[tuple[int, int], ...]
    site_locations: tuple[str, ...]  # source line of each loop and branch that can be counted
    code: bytes  # StableHLO
    options: bytes  # CompileOptionsProto
    hlo: bytes  # HloModuleProto that was planned
    values: bytes  # XLA:CPU's program; b"" if this one was compiled in a dry run
    program: Program

    def require_fits(self, machine: MachineSpec, plan_options: PlanOptions) -> None:
        """Raises: StoredError if the program was planned for another machine, or with other options."""
        current = {"machine": machine_id(machine), "plan options": repr(plan_options)}
        for (name, here), planned in zip(current.items(), (self.machine, self.plan_options), strict=True):
            if here != planned:
                raise StoredError(
                    f"the stored program {shown(self.name)} was planned for {name} {plain(planned)}; here it is {here}: compile it again"
                )


def pack(program: Serialized) -> bytes:
    """The program as bytes."""
    sections = {
        "code": program.code,
        "options": program.options,
        "hlo": program.hlo,
        "values": program.values,
        "plan": dump_program(program.program).encode(),
    }
    head = {
        "versions": _versions(),
        "name": program.name,
        "machine": program.machine,
        "plan_options": program.plan_options,
        "counted": program.counted,
        "places": program.site_locations,
        "sizes": [len(sections[name]) for name in _SECTIONS],
    }
    body = json.dumps(head).encode() + b"\n" + b"".join(sections[name] for name in _SECTIONS)
    return _MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unpack(data: bytes) -> Serialized:
    """Reads bytes that `pack` wrote. Raises: StoredError if they are damaged or other versions of the package or of jaxlib wrote them."""
    if not data.startswith(_MAGIC):
        raise StoredError(f"no stored program of platform ipu begins with {data[:20]!r}")
    digest, newline, body = data[len(_MAGIC) :].partition(b"\n")
    if not newline or hashlib.sha256(body).hexdigest().encode() != digest:
        raise StoredError(f"a stored program of {len(data):,} B is damaged: its checksum is wrong")
    line, _, rest = body.partition(b"\n")
    head = _head(line)
    if head["versions"] != _versions():
        raise StoredError(f"a stored program was written by {shown(head['versions'])}; here are {_versions()}: compile it again")
    sections: dict[str, bytes] = {}
    try:
        sizes: list[int] = head["sizes"]
        if min(sizes) < 0 or sum(sizes) != len(rest):
            raise ValueError(f"its parts have {shown(sizes)} B, and {len(rest):,} B are there")
        for name, size in zip(_SECTIONS, sizes, strict=True):
            sections[name], rest = rest[:size], rest[size:]
        return Serialized(
            name=str(head["name"]),
            machine=str(head["machine"]),
            plan_options=str(head["plan_options"]),
            counted=tuple((int(site), int(arm)) for site, arm in head["counted"]),
            site_locations=tuple(str(line) for line in head["places"]),
            program=load_program(sections.pop("plan")),
            **sections,
        )
    except StoredError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise StoredError(
            f"a stored program has another header than this version writes ({_error_text(error)}): compile the program again"
        ) from error


def _head(line: bytes) -> dict[str, Any]:
    try:
        head: Any = json.loads(line)
        head["versions"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoredError(f"a stored program has no header ({_error_text(error)}): compile the program again") from None
    return head


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {shortened(error, 200)}"


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("tilestep", "jaxlib")}


def machine_id(machine: MachineSpec) -> str:
    """The machine's name and a hash of all its figures."""
    return f"{machine.name} ({hashlib.sha256(repr(machine).encode()).hexdigest()[:16]})"
