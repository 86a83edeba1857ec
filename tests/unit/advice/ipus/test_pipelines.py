"""More microbatches for a pipeline of two stages on a machine of round numbers."""

import re

import pytest

from tests.unit.sim.toy import LOADED, Host, program, superstep
from tilestep.advice import Finding
from tilestep.profiling.measure import profile_between
from tilestep.recording.history import begin_history, history_since
from tilestep.sim.calls import Dispatch
from tilestep.sim.trace import PipelineTask
from tilestep.views.profile import Profile

MICROBATCHES, MORE = 2, 16
PARAMETERS = 400  # bytes, and cycles


def piped(steps: int) -> Profile:
    """A run of so many steps; the parameters come in the first one and stay."""
    host = Host(2, sync_pattern="singlePipeline")
    begin = begin_history(host.system)
    first = program(superstep(500), name="jit_first", takes=(8, PARAMETERS), gives=(8, PARAMETERS), donates={1: 1})
    last = program(superstep(500), name="jit_last", takes=(8,), gives=(4,))
    params = host.put(PARAMETERS)
    for step in range(steps):
        group, between = ("pipeline 1", step + 1), list[int]()
        for microbatch in range(MICROBATCHES):
            results, before = [host.name(), host.name()], params
            call = Dispatch(host.key(first), (0,), [[host.put(8), before]], [results], (), group, PipelineTask(0, "forward", microbatch))
            host.system.dispatch(first, call)
            made, params = results
            between.append(host.copy(made, ipu=1, group=group))
        for microbatch, value in enumerate(between):
            call = Dispatch(host.key(last), (1,), [[value]], [[host.name()]], (), group, PipelineTask(1, "forward", microbatch))
            host.system.dispatch(last, call)
    return profile_between(host.system, host.start, host.system.mark(), history=history_since(host.system, begin))


def bubbles(profile: Profile) -> Finding:
    [found] = [finding for finding in profile.findings if finding.kind == "bubbles"]
    assert found.edit == f"use {MORE} microbatches in place of {MICROBATCHES} in pipeline 1"
    return found


def test_what_the_first_step_takes_longer_counts_for_each_microbatch_that_is_more() -> None:
    """It takes longer than a warm one, because parameters come in it and it begins with empty stages."""
    profile = piped(100)
    gain, steady = bubbles(profile).gain, profile.steady
    assert gain is not None
    assert gain.step_cycles is not None
    assert steady is not None
    once = (MORE // MICROBATCHES - 1) * (piped(1).emulated_cycles - LOADED - steady.step_cycles)
    assert once > (MORE // MICROBATCHES - 1) * PARAMETERS
    assert gain.cycles == pytest.approx(100 * gain.step_cycles - once, rel=0.01)
    few = bubbles(piped(8))
    assert few.gain is None
    told = re.search(r" pays off after about (\d+) steps of 2\.$", few.text)
    assert told is not None
    assert int(told[1]) == pytest.approx(once / gain.step_cycles, abs=1)
