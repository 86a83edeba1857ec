"""A seeded fault: a small program with a fault that one rule of the advice is about, and the program in which the advice is followed."""

import linecache
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tilestep
from tilestep.advice import Finding
from tilestep.views.profile import Profile

Program = Callable[[], Any]
_NOTHING = jax.jit(jnp.negative)


class Fault(NamedTuple):
    """What the first finding has to be, and how well its gain has to be known."""

    kind: str
    edit: str  # pattern of the first finding's edit
    before: Program
    after: Program
    within: float  # of the gain that the edit makes; 0: exact to the cycle
    how: str = "about"
    dry: bool = False  # nothing is computed
    at: str = ""  # what the finding's line has
    says: str = ""  # pattern of the finding's text


def wait_for_all() -> None:
    """Waits until all IPUs have ended what was before, whoever has called it: so a profile does not begin while they still work."""
    over_all = NamedSharding(Mesh(np.array(jax.devices("ipu")), ("ipu",)), PartitionSpec("ipu"))
    jax.block_until_ready(_NOTHING(jax.device_put(np.zeros(len(jax.devices("ipu")), np.float32), over_all)))


def profiled(program: Program) -> Profile:
    wait_for_all()
    with tilestep.profile() as recording:
        jax.block_until_ready(program())
    return recording.profile


def dry(program: Program) -> Profile:
    wait_for_all()
    with tilestep.profile() as recording, tilestep.dry_run():
        jax.block_until_ready(program())
    return recording.profile


def first_of(profile: Profile) -> Finding:
    assert profile.findings, profile.summary()
    return profile.findings[0]


def of_kind(profile: Profile, kind: str) -> list[Finding]:
    return [finding for finding in profile.findings if finding.kind == kind]


def check(fault: Fault) -> None:
    """The fault is found, ranked first, and gone when the edit is made; the gain is as promised."""
    run = dry if fault.dry else profiled
    before, after = run(fault.before), run(fault.after)
    first = first_of(before)
    assert first.kind == fault.kind, before.summary()
    assert re.search(fault.edit, first.edit), first.headline
    assert re.search(fault.says, first.text), first.text
    assert first.gain is not None
    assert first.gain.how == fault.how, first.headline
    line = "" if first.line is None else linecache.getline(first.line.file, first.line.number)
    assert fault.at in line, first.headline
    made, told = before.emulated_cycles - after.emulated_cycles, first.gain.cycles
    if first.gain.warm_only:
        assert before.steady is not None
        assert after.steady is not None
        made, told = before.steady.step_cycles - after.steady.step_cycles, first.gain.step_cycles or 0
    assert made > 0
    assert abs(told - made) <= fault.within * made, f"{first.headline}, but {made:,} of {before.emulated_cycles:,} cycles"
    assert (
        first.gain.warm_only or first.gain.share == first.gain.cycles / before.emulated_cycles or first.gain.basis.startswith("of the last")
    )
    again = [finding.headline for finding in of_kind(after, fault.kind) if re.search(fault.edit, finding.edit)]
    assert again == [], after.summary()
