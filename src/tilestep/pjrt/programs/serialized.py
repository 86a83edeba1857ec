"""Compiled programs as bytes: what JAX writes into its compilation cache, and what users keep.

The bytes hold the program for values as XLA:CPU serialises it, which is machine code: load only what you trust, as with every JAX platform.
What is added here, the plan and its description, is JSON and checked as it is read.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from tilestep.errors import StoredError, UnsupportedError
from tilestep.machine.spec import MachineSpec
from tilestep.options import PlanOptions
from tilestep.pjrt.jax_private import compat
from tilestep.plan.steps import Program
from tilestep.plan.stored import dump_program, load_program

if TYPE_CHECKING:
    from tilestep.pjrt.programs.executable import LoadedExecutable

_MAGIC = b"tilestep executable\n"
_SECTIONS = ("code", "options", "hlo", "values", "plan")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What a compiled program is made of again."""

    name: str
    machine: str  # who it was planned for
    plan_options: str
    counted: tuple[tuple[int, int], ...]
    places: tuple[str, ...]
    code: bytes  # StableHLO
    options: bytes  # CompileOptionsProto
    hlo: bytes  # HloModuleProto that was planned
    values: bytes  # by XLA:CPU; b"" of a program that was compiled in a dry run
    program: Program

    def require_fits(self, machine: MachineSpec, plan_options: PlanOptions) -> None:
        """Raises: StoredError if the program was planned for another machine, or with other options."""
        wanted = {"machine": _machine_id(machine), "plan options": repr(plan_options)}
        for (what, here), there in zip(wanted.items(), (self.machine, self.plan_options), strict=True):
            if here != there:
                raise StoredError(f"the stored program {self.name!r} was planned for {what} {there}; here it is {here}: compile it again")


def pack(executable: LoadedExecutable) -> bytes:
    """The program as bytes. Raises: UnsupportedError if it calls Python functions, which live in this process only."""
    if executable.callbacks:
        raise UnsupportedError(f"program {executable.name!r} calls Python functions of this process, so it cannot be serialised")
    sections = {
        "code": executable.code,
        "options": executable.options,
        "hlo": executable.planned_hlo,
        "values": b"" if executable.is_dry else compat.serialize(executable.client.host, executable.host_executable),
        "plan": dump_program(executable.program).encode(),
    }
    head = {
        "versions": _versions(),
        "name": executable.name,
        "machine": _machine_id(executable.client.machine),
        "plan_options": repr(executable.plan_options),
        "counted": executable.counted,
        "places": executable.places,
        "sizes": [len(sections[name]) for name in _SECTIONS],
    }
    body = json.dumps(head).encode() + b"\n" + b"".join(sections[name] for name in _SECTIONS)
    return _MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unpack(data: bytes) -> Stored:
    """Reads what `pack` wrote. Raises: StoredError if it is damaged, or was written by other versions of the package or of jaxlib."""
    if not data.startswith(_MAGIC):
        raise StoredError(f"no stored program of platform ipu begins with {data[:20]!r}")
    digest, newline, body = data[len(_MAGIC) :].partition(b"\n")
    if not newline or hashlib.sha256(body).hexdigest().encode() != digest:
        raise StoredError(f"a stored program of {len(data):,} B is damaged: its checksum is wrong")
    line, _, rest = body.partition(b"\n")
    head = _head(line)
    if head["versions"] != _versions():
        raise StoredError(f"a stored program was written by {head['versions']}; here are {_versions()}: compile it again")
    found: dict[str, bytes] = {}
    try:
        for name, size in zip(_SECTIONS, head["sizes"], strict=True):
            found[name], rest = rest[:size], rest[size:]
        return Stored(
            name=str(head["name"]),
            machine=str(head["machine"]),
            plan_options=str(head["plan_options"]),
            counted=tuple((int(site), int(arm)) for site, arm in head["counted"]),
            places=tuple(str(place) for place in head["places"]),
            program=load_program(found.pop("plan")),
            **found,
        )
    except StoredError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise StoredError(f"a stored program has a header that says something else than this version writes: {error!r}") from error


def _head(line: bytes) -> dict[str, Any]:
    try:
        head: Any = json.loads(line)
        head["versions"]
    except (ValueError, KeyError, TypeError) as error:
        raise StoredError(f"a stored program has no header: {error!r}") from None
    return head


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("tilestep", "jaxlib")}


def _machine_id(machine: MachineSpec) -> str:
    return f"{machine.name} ({hashlib.sha256(repr(machine).encode()).hexdigest()[:16]})"
