"""What if the machine were another: as long as the same host program takes there."""

from __future__ import annotations

import random
from array import array
from dataclasses import replace
from functools import partial

import pytest

from tests.bounded import ends_soon
from tests.unit.sim.toy import MACHINE, Host, collective, program, superstep
from tilestep.advice.what_if.knob_table import knob_table
from tilestep.advice.what_if.knobs import setting_of, turned
from tilestep.advice.what_if.outcome import outcome
from tilestep.errors import RecordingError, SpecError
from tilestep.machine import load_machine
from tilestep.machine.spec import MachineSpec
from tilestep.options import PlanOptions
from tilestep.plan.lower import lower
from tilestep.plan.steps import Program
from tilestep.program.hlo import parse_hlo
from tilestep.recording.history import History, begin_history, history_since

TWO = replace(MACHINE, num_ipus=2)
HLO = """HloModule jit_f, entry_computation_layout={(f32[64,64]{1,0})->f32[64,64]{1,0}}

ENTRY %main (x: f32[64,64]) -> f32[64,64] {
  %x = f32[64,64]{1,0} parameter(0)
  ROOT %d = f32[64,64]{1,0} dot(f32[64,64]{1,0} %x, f32[64,64]{1,0} %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def busy(on: MachineSpec, called: Program | None = None) -> History:
    """A program on two IPUs, whose result the host reads."""
    called = called or program(superstep(40, 10, 5, family="matmul"), collective("all-reduce", 800), takes=(300,), gives=(200,), num_ipus=2)
    host = Host(on=on)
    begin = begin_history(host.system)
    for _ in range(4):
        ipus = tuple(range(called.num_ipus))
        rows = [[host.put(argument.size_bytes, ipu=ipu) for argument in called.arguments] for ipu in ipus]
        found = host.run_on(ipus, called, rows)
        host.system.read(found[0][0])
    return history_since(host.system, begin)


def cycles(history: History) -> int:
    return outcome(history, {}, []).cycles


@pytest.mark.parametrize(
    "text", ["host.link=x2", "host.latency=/5", "host.load=x3", "host.dispatch=/2", "links=/2", "sync.pattern=singlePipeline"]
)
def test_a_replay_with_another_machine_is_exact(text: str) -> None:
    found = outcome(busy(TWO), {}, [setting_of(text)])
    assert found.turned_cycles == cycles(busy(turned(TWO, setting_of(text))))
    assert found.cycles == cycles(busy(TWO)) != found.turned_cycles
    assert found.planned_again == ()


def test_settings_are_turned_together() -> None:
    settings = [setting_of("host.link=x2"), setting_of("links=x2")]
    both = turned(turned(TWO, settings[0]), settings[1])
    assert outcome(busy(TWO), {}, settings).turned_cycles == cycles(busy(both))


def test_a_family_at_half_the_cost() -> None:
    called = program(superstep(20, 5, 3, family="matmul"), collective("all-reduce", 800), takes=(300,), gives=(200,), num_ipus=2)
    assert outcome(busy(TWO), {}, [setting_of("family.matmul=/2")]).turned_cycles == cycles(busy(TWO, called))


def planned(on: MachineSpec, hlo: str = HLO, options: PlanOptions | None = None) -> Program:
    return lower(parse_hlo(hlo), on, name="f", num_ipus=1, options=options or PlanOptions())


def test_a_knob_of_plans_plans_again() -> None:
    setting = setting_of("exchange=x4")
    found = outcome(busy(TWO, planned(TWO)), {1: HLO}, [setting])
    other = turned(TWO, setting)
    assert found.turned_cycles == cycles(busy(other, planned(other))) < found.cycles
    assert found.planned_again == ("f",)


def test_another_machine_takes_as_long_as_the_same_calls_there() -> None:
    """It has another clock, more IPUs and other links; nothing of what was planned for the first one stays."""
    before, other = load_machine("m2000"), load_machine("bow-pod16")
    hlo = HLO.replace("64,64", "512,512")
    history = busy(before, planned(before, hlo))
    found = outcome(history, {1: hlo}, [], machine=other)
    assert found.turned_cycles == cycles(busy(other, planned(other, hlo))) != found.cycles
    assert (found.machine, found.planned_again, found.unfit) == (other, ("f",), ())
    setting = setting_of("host.link=x2")
    both = outcome(history, {1: hlo}, [setting], machine=other)
    assert both.turned_cycles == cycles(busy(turned(other, setting), planned(other, hlo))) < found.turned_cycles


def test_what_was_on_the_machine_before_the_recording_is_there_on_the_other_one() -> None:
    def began_late(on: MachineSpec) -> History:
        host, called = Host(on=on), planned(on)
        ipus = (0,)
        rows = [[host.put(argument.size_bytes) for argument in called.arguments]]
        host.run_on(ipus, called, rows)
        begin = begin_history(host.system)
        host.run_on(ipus, called, rows)
        return history_since(host.system, begin)

    two, four = TWO, replace(TWO, num_ipus=4)
    assert began_late(two).snapshot.ipus
    assert outcome(began_late(two), {1: HLO}, [], machine=four).turned_cycles == cycles(began_late(four))


def test_another_machine_is_refused_with_fewer_ipus_or_without_the_hlo() -> None:
    history = busy(TWO, planned(TWO))
    with pytest.raises(SpecError, match="machine toy has 1 IPU, and the recording is of 2: name one with at least as many"):
        outcome(history, {1: HLO}, [], machine=MACHINE)
    words = "'f' cannot be planned for bow-pod16, because the recording has no HLO of it: `tilestep run --machine bow-pod16 SCRIPT` runs"
    with pytest.raises(RecordingError, match=words):
        outcome(history, {}, [], machine=load_machine("bow-pod16"))


def test_what_does_not_fit_another_machine_is_named() -> None:
    small = replace(TWO, ipu=replace(TWO.ipu, tile=replace(TWO.ipu.tile, sram_bytes=100, executable_bytes=100)))
    assert outcome(busy(TWO, planned(TWO)), {1: HLO}, [], machine=small).unfit == ("f",)


def test_a_program_of_unusual_options_is_planned_again_with_them() -> None:
    on, hlo, setting = replace(TWO, ipu=load_machine("m2000").ipu), HLO.replace("64,64", "512,512"), setting_of("exchange=x2")
    unusual = PlanOptions(available_memory_proportion=0.01)
    history = busy(on, planned(on, hlo, unusual))
    found = outcome(history, {1: hlo}, [setting], options={1: unusual})
    other = turned(on, setting)
    assert found.turned_cycles == cycles(busy(other, planned(other, hlo, unusual)))
    with pytest.raises(RecordingError, match=r"its HLO does not become the recorded one\. It was planned with other options"):
        outcome(history, {1: hlo}, [setting])
    with pytest.raises(RecordingError, match="its HLO does not become the recorded one"):
        outcome(history, {1: hlo}, [setting], options={1: PlanOptions()})


def test_a_knob_of_plans_is_refused_without_the_hlo() -> None:
    with pytest.raises(RecordingError, match="program 'f' cannot be planned again, because its HLO was not kept"):
        outcome(busy(TWO, planned(TWO)), {}, [setting_of("amp=x2")])


@pytest.mark.parametrize("text", ["", "no HLO", "HloModule x\n\nENTRY e {\n  ROOT a = f32[9999999999] parameter(0)\n}"])
def test_damaged_hlo_is_told(text: str) -> None:
    with pytest.raises(RecordingError, match="program 'f' cannot be planned"):
        outcome(busy(TWO, planned(TWO)), {1: text}, [setting_of("amp=x2")])


def test_a_journal_that_cannot_be_played_is_told() -> None:
    history = replace(busy(TWO), programs={})
    with pytest.raises(RecordingError, match="the journal of the recording cannot be played"):
        outcome(history, {}, [setting_of("host.link=x2")])
    with pytest.raises(RecordingError, match="the journal of the recording cannot be played"):
        knob_table(history)


def test_a_journal_of_anybody_is_played_or_refused() -> None:
    history, chosen = busy(TWO), random.Random(5)
    outcomes: set[str] = set()
    for _ in range(60):
        numbers = array("q", history.calls.numbers)
        numbers[chosen.randrange(len(numbers))] = chosen.choice((-1, 0, 1, 7, 2**31, 2**62, -(2**62)))
        damaged = replace(history, calls=replace(history.calls, numbers=numbers))
        acts = (partial(knob_table, damaged), partial(outcome, damaged, {}, [setting_of("host.link=x2")]))
        for act in acts:
            with ends_soon():
                try:
                    act()
                    outcomes.add("played")
                except RecordingError:
                    outcomes.add("refused")
    assert outcomes == {"played", "refused"}
