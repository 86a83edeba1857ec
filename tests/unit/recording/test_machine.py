"""The machine as a text of a recording."""

import json
from typing import Any

import pytest

from tests.together import each
from tilestep import RecordingError
from tilestep.machine.catalog import machine_names
from tilestep.machine.toml import load_machine
from tilestep.recording.machine import machine_document, machine_from_document


@each("name", machine_names())
def test_every_machine_comes_back(name: str) -> None:
    machine = load_machine(name)
    assert machine_from_document(json.loads(json.dumps(machine_document(machine)))) == machine


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, r"has the unknown \['colour'\]"),
        ({"ipu.num_tiles": "many"}, "ipu.num_tiles is 'many': it must be a whole number in tiles"),
        ({"num_ipus": 10**9}, "num_ipus is 1000000000: it must be 1 to 256 IPUs"),
        ({"ipu.clock_hz": float("nan")}, "ipu.clock_hz is nan"),
        ({"name": "a\nb"}, "name is 'a.nb': it must be a line of text"),
    ],
)
def test_a_machine_that_cannot_be_is_an_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordingError, match=message):
        machine_from_document({**machine_document(load_machine("bow-2000")), **change})


def test_what_is_no_machine_is_an_error() -> None:
    with pytest.raises(RecordingError, match=r"it is \[1\], and must be an object"):
        machine_from_document([1])
    with pytest.raises(RecordingError, match=r"it lacks the fields \['name', 'description', "):
        machine_from_document({})
