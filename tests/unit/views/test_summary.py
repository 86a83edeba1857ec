"""The summary leads with what to do."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table

from tests.unit.sim.toy import DISPATCH, Host, program, superstep
from tilestep.advice import Advice, Finding, Line, findings
from tilestep.advice.host.reads import idle
from tilestep.figures.lane_names import KIND_TEXTS
from tilestep.hints import EffectiveBatch
from tilestep.plan.steps import Program
from tilestep.profiling.measure import profile_between
from tilestep.views.profile import Profile
from tilestep.views.summary import TABLES, Headings

PROFILE_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "profile.md"


def profile_of(host: Host) -> Profile:
    return profile_between(host.system, host.start, host.system.mark())


def told(host: Host) -> dict[str, str]:
    """Findings by kind, the first of each."""
    found: dict[str, str] = {}
    for finding in findings(profile_of(host)):
        found.setdefault(finding.kind, finding.text)
    return found


def sized(called: Program, peak_bytes: int) -> Program:
    memory = replace(called.memory, peak_bytes=peak_bytes, alive=(("weights", peak_bytes // 2),), always=(("code", 10),))
    return replace(called, memory=memory)


def test_many_programs_that_load_once_are_told_apart_from_switching(host: Host) -> None:
    for index in range(6):
        host.run(program(superstep(5), name=f"op{index}"))
    assert "Each function is a program of its own." in told(host)["fixed"]


def test_the_limiting_family_of_the_slowest_program_is_named(host: Host) -> None:
    host.run(program(superstep(10), name="short"))
    host.run(
        program(
            superstep(100, 700, 200, name="dot.3", family="matmul"),
            superstep(10, 5, 10, name="add", family="elementwise"),
            name="long",
        )
    )
    text = told(host)["limit"]
    assert re.match(
        r"The supersteps of long, the slowest program, take \d+ % of emulated time; 98 % of that is matmul, limited by exchange \(70 %\)",
        text,
    )
    assert text.endswith("Largest: dot.3 from jit(f)/dot.3 (98 %).")


def test_sync_bound_operations_are_too_small(host: Host) -> None:
    host.run(program(superstep(1, 1, 200)))
    assert "limited by sync (99 %): its operations are too small" in told(host)["limit"]


def test_tiles_that_are_too_full_come_first_and_tiles_near_full_are_worth_knowing(host: Host) -> None:
    host.run(sized(program(superstep(5), name="near"), 860))
    host.run(sized(program(superstep(5), name="over"), 1200))
    host.run(sized(program(superstep(5), name="half"), 500))
    first, *others = findings(profile_of(host))
    assert first.text.startswith(
        "program over does not fit: it needs 120 % of a tile (1.17 KiB of 1000 B, on tile 0 in superstep 'step'), 200 B too many, and ran "
        "only because running out of memory was allowed. Largest: weights 600 B, code 10 B. Try: arrays divided over more "
        "IPUs (jax.sharding), a smaller batch, "
    )
    [near] = [finding for finding in others if finding.kind == "memory"]
    assert (near.part, near.headline) == ("aside", "")
    assert near.text == (
        "program near nearly fills its tiles: 86 % of a tile (860 B of 1000 B, on tile 0 in superstep 'step'). "
        "Largest: weights 430 B, code 10 B."
    )
    assert "half" not in first.text + near.text


def test_a_machine_that_waits_for_its_host_is_told(host: Host) -> None:
    short = program(superstep(1))
    for _ in range(100):
        host.run(short)
    assert profile_of(host).dispatches == 100
    assert profile_of(host).dispatch_cycles == 100 * DISPATCH
    assert re.fullmatch(
        r"The host spends (9\d|100) % of emulated time dispatching 100 runs, and IPU 0, the busiest, waits 8\d %: do more in each run "
        r"\(lax\.scan, lax\.fori_loop\), and read results rarely, so that the host is ahead of the IPU\.",
        told(host)["idle"],
    )
    assert findings(profile_of(host))[0].kind == "idle"  # before what limits a program that hardly runs


def test_a_wait_that_is_not_for_dispatches_is_told_apart() -> None:
    host = Host(3)
    called = program(superstep(10_000), gives=(1,))
    for ipu in (0, 1, 2):  # one after the other: each waits for the two before it
        host.system.wait(host.run(called, ipu=ipu)[0])
    assert told(host)["idle"] == (
        "IPU 0, the busiest, waits 67 % of emulated time for the host or other IPUs: dispatch more before reading, do more per call "
        "(lax.scan, lax.fori_loop), or give the IPUs work that does not wait for each other's (microbatches)."
    )


def test_an_end_that_another_ipu_decides_is_no_wait_for_the_host() -> None:
    host = Host(2)
    for _ in range(2):
        host.system.wait(host.run(program(superstep(10_000), gives=(1,)))[0])
    host.run(program(superstep(4000), name="last"), ipu=1)
    profile = profile_of(host)
    [proposal] = idle(profile, None)
    assert proposal.finding.text.endswith("before it dispatches more, and the IPUs wait meanwhile: read them later, or rarely.")
    assert "idle" not in told(host), "nothing says that to read later saves anything"


def test_dispatches_inside_of_a_group_are_not_counted(host: Host) -> None:
    for entry in range(1, 6):
        host.run(program(superstep(1)), group=("loop", entry))
    assert (profile_of(host).dispatches, profile_of(host).dispatch_cycles) == (0, 0)


def test_fallbacks_are_found_and_listed(host: Host) -> None:
    host.run(replace(program(superstep(5)), fallback_ops=("cholesky",)))
    assert told(host)["fallback"] == "1 operation without an estimator of its own, priced roughly: cholesky."
    assert "- Priced roughly, without an estimator of its own (~): cholesky." in profile_of(host).summary()


def defined(columns: Headings) -> list[str]:
    """The columns of a table that docs/reference/profile.md defines under its title."""
    [section] = re.findall(rf"^### {columns.title}\n(.*?)(?=^##|\Z)", PROFILE_PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return re.findall(r"^\| `(.+?)` \| \S", section, re.MULTILINE)


def test_every_column_of_every_table_is_defined() -> None:
    assert {columns.title: defined(columns) for columns in TABLES} == {
        columns.title: [*columns.words, *columns.figures] for columns in TABLES
    }


def test_what_a_summary_prints_are_those_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []

    def add_column(self: Table, header: str = "", **options: Any) -> None:
        printed.append(header)
        original(self, header, **options)

    original = Table.add_column
    monkeypatch.setattr(Table, "add_column", add_column)
    host = evicted_host()
    full = sized(program(superstep(10**6), name="full"), 900)
    host.run(full)
    host.system.accumulated(EffectiveBatch(loop="loop", microbatch=2, count=2, replicas=1, microbatches=2, samples=4), 4)
    text = profile_of(host).summary()
    headings = [heading for columns in TABLES for heading in (*columns.words, *columns.figures)]
    assert [heading for heading in printed if heading] == headings
    assert all(re.search(rf"^{columns.title}", text, re.MULTILINE) for columns in TABLES)


def test_equal_steps_of_layers_are_one_row_with_their_count(host: Host) -> None:
    layers = [replace(superstep(1000, name=f"dot.{layer}"), scope=f"jit(f)/LM/Block_{layer}/dot") for layer in range(3)]
    others = [replace(superstep(cycles, name=f"add.{cycles}"), scope=f"jit(f)/LM/Block_{cycles % 3}/add") for cycles in (301, 302)]
    host.run(program(*layers, *others, name="f"))
    profile = profile_of(host)
    lines = profile.summary().splitlines()
    first, *rest = [line.split() for line in lines[lines.index("Largest supersteps") + 2 :]][:3]
    assert " ".join(first).startswith("dot.0 and 2 equal Block_0..2/dot f 3 3")
    assert [row[0] for row in rest] == ["add.302", "add.301"]
    assert len(profile.supersteps) == 5  # each, in the JSON


def test_every_row_of_the_time_table_is_defined() -> None:
    [section] = re.findall(r"^### Time\n(.*?)^### ", PROFILE_PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    beside = {"io-in", "io-out", "dispatch", "wait", "transfer"}  # one row for both of the I/O tiles; the others are of other lanes
    assert [text for kind, text in KIND_TEXTS.items() if kind not in beside and f"`{text}`" not in section] == []
    assert "`beside it, over I/O tiles`" in section


def evicted_host() -> Host:
    """A state that an evaluation saves, which the next step brings back."""
    host = Host()
    step = program(superstep(10), name="jit_step", takes=(300_000,), gives=(300_000,), donates={0: 0})
    evaluate = program(superstep(10), name="jit_evaluate", takes=(300_000,), gives=(4,))
    state = host.put(300_000)
    for _ in range(3):
        [state] = host.run(step, state)
        host.run(evaluate, state)
    return host


def test_values_of_evicted_programs_have_a_table_of_their_own() -> None:
    lines = profile_of(evicted_host()).summary().splitlines()
    start = lines.index("Values of evicted programs")
    assert [line.split() for line in lines[start + 1 : start + 4]] == [
        ["program", "loads", "saved", "restored"],
        ["jit_evaluate", "3", "879", "KiB", "0", "B"],
        ["jit_step", "3", "0", "B", "586", "KiB"],
    ]
    [step] = [line for line in lines[:start] if line.startswith("  jit_step")]
    [evaluate] = [line for line in lines[:start] if line.startswith("  jit_evaluate")]
    assert re.search(r" 0 B +0 B +\S+ %$", step)
    assert re.search(r" 293 KiB +4 B +\S+ %$", evaluate)
    assert all(len(line) <= 100 for line in lines)
    assert "Values of evicted programs" not in profile_of(busy_host()).summary()


def busy_host() -> Host:
    host = Host(2)
    names = ("jit_train_step_with_a_very_long_name_that_goes_on", "jit_evaluate", "jit_[red]brackets[/red]")
    for index, name in enumerate(names):
        steps = [
            superstep(10**6 * (index + 1), 10**5, 10**4, name=f"{family}.{k}", family=family) for k in range(4) for family in ("dot", "add")
        ]
        called = program(*steps, name=name, takes=(123_456,), gives=(1234,))
        for _ in range(index + 1):
            host.run(called, host.put(123_456))
    return host


def test_the_summary_reads_well_at_100_columns() -> None:
    text = profile_of(busy_host()).summary()
    lines = text.splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert lines[0].startswith("tilestep: fits: ")
    end = lines.index("")
    assert lines[end - 2].endswith(" s emulated on toy (2 IPUs of 4 tiles, 0.001 GHz), 6 program runs")
    assert re.fullmatch(
        r"80 % sure: 118 s \(\S+ to \S+\); widest: dot rates\. Memory: 1\.0 % of a tile \(\S+ to \S+\): fits\.", lines[end - 1]
    )
    assert lines[end + 1] == "Worth knowing"
    titles = ["Worth knowing", "Time of IPU 0, the busiest", "Programs", "Largest supersteps", "Assumptions and fallbacks"]
    assert [line for line in lines if line in titles] == titles
    assert "…" in text  # the long name gives way
    figures = next(line for line in lines if line.startswith("  jit_train"))
    assert "121 KiB" in figures  # the figures do not
    assert "1.21 KiB" in figures
    assert "jit_[red]brackets[/red]" in text  # names are not markup
    assert "\x1b" not in text
    assert not text.endswith("\n")


def test_many_programs_are_cut_short_but_counted(host: Host) -> None:
    for index in range(20):
        host.run(program(superstep(100 + index), name=f"op{index}"))
    text = profile_of(host).summary()
    assert "and 8 more programs" in text
    assert "  op19 " in text
    assert "  op0 " not in text


@pytest.mark.slow
def test_names_in_a_summary_move_no_cursor_and_are_shown_in_part() -> None:
    red, long = "A\x1b[31mRED\x1b[2J\u202e", "h" * 10_000
    host = Host()
    host.run(program(superstep(5, name=red, family=red), name=red))
    host.run(program(superstep(50, name=long), name=long))
    finding = Finding(kind="memory", text=f"{red}, {long} do not fit.", edit=f"donate {red}", line=Line(file=red, number=1))
    profile = replace(profile_of(host), given=Advice(findings=(finding,)))
    for color in (False, True):
        text = profile.summary(color=color)
        assert not set("\u202e") & set(text)
        assert "\x1b[31m" not in text
        assert "\x1b[2J" not in text
        assert "\\\\x1b" not in text  # escaped once
        assert "hhh...hhh" in "".join(text.split())
        assert "h" * 101 not in "".join(text.split())
        assert "A\\x1b[31mRED\\x1b[2J\\u202e, the fullest" in text
    assert red in json.loads(profile.to_json())["programs"][0]["name"]
