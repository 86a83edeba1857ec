"""Plans survive being written and read, and nothing but a plan is read."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tilestep.errors import StoredError
from tilestep.machine import load_machine
from tilestep.plan.lower import lower
from tilestep.plan.serialized import dump_program, load_program
from tilestep.plan.steps import Branch, Frame, HostCall, Loop, Program, Series, Superstep, TileMemory
from tilestep.program.hlo import parse_hlo

HLO = Path(__file__).parents[2] / "golden" / "hlo"
STEP = Superstep(name="a", scope="", family="copy", compute_cycles=1, exchange_cycles=2, sync_cycles=3, fallback=True, frame=2)
MEMORY = TileMemory(peak_bytes=9, peak_step="a", code_bytes=4, resident_bytes=3, transient_bytes=2, alive=(("x", 5),))
CALL = HostCall(name="c", scope="s", bytes_to_host=4, bytes_from_host=8, in_memory=True)
BODY = Series(nodes=(Loop(name="l", scope="", body=Series(nodes=(STEP,)), trips=None, site=0), CALL))
TREE = Program(
    name="tree",
    num_ipus=2,
    body=Series(nodes=(BODY, Branch(name="b", scope="", arms=(BODY, Series()), site=None))),
    arguments=(),
    results=(),
    memory=MEMORY,
    assumptions=("one",),
    frames=(Frame(file="a.py", function="f", line=3, column=1, parent=0), Frame(file="b.py", function="g", line=4, column=0, parent=1)),
)
TEXT = dump_program(TREE)


@pytest.mark.parametrize("path", sorted(HLO.glob("*.hlo")), ids=lambda path: path.stem)
def test_a_planned_program_comes_back(path: Path) -> None:
    program = lower(parse_hlo(path.read_text(encoding="utf-8")), load_machine("bow-2000"), name=path.stem, num_ipus=4)
    assert load_program(dump_program(program)) == program


def test_every_kind_of_node_comes_back() -> None:
    assert load_program(TEXT) == TREE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("{}", "program: it must be a record of Program"),
        ('["Path", "/etc/passwd"]', "program: it must be a record of Program"),
        ('["Program"]', "0 fields in program: Program has"),
        (TEXT.replace('"tree",2', '"tree","2"'), "'2' as program.num_ipus: it must be int"),
        (TEXT.replace('"tree",2', '"tree",true'), "True as program.num_ipus: it must be int"),
        (TEXT.replace('"g",4,0,1]', '"g",4,0,2]'), r"2 as program.frames\[1\].parent: it must be from 0 to 1"),
        (TEXT.replace('"g",4,0,1]', '"g",4,0,-1]'), r"-1 as program.frames\[1\].parent"),
        (TEXT.replace("0,1,0,2]", "0,1,0,3]"), "3 as frame of 'a': it must be from 0 to 2"),
        (
            TEXT.replace('["HostCall"', '["Program"'),
            "must be a record of Superstep or Collective or HostCall or Loop or Branch or Series",
        ),
    ],
)
def test_what_is_no_plan_is_refused(text: str, message: str) -> None:
    with pytest.raises(StoredError, match=message):
        load_program(text)


def test_records_nested_too_deep_are_no_plan() -> None:
    body: Any = ["Series", []]
    for _ in range(300):
        body = ["Series", [body]]
    names = [field.name for field in dataclasses.fields(Program)]
    record = ["Program", *(body if name == "body" else "x" if name == "name" else 1 for name in names)]
    with pytest.raises(StoredError, match="a stored plan has records nested too deep"):
        load_program(json.dumps(record))
