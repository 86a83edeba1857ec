"""Whatever a file or a setting says, it is taken or refused by the documented error, soon, in words that can be printed."""

import functools
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.fuzzed import HOSTILE, KINDS, NUMBERS, Edit, edited, fault_of, inputs
from benchmarks.fuzzed_formats import Format, Read, formats

NAMES = ["hlo", "toml", "engine options", "variables", "checkpoints", "npy", "serialised programs"]
OTHERS = ["recordings", "PopART's executables", "onnx"]  # which have tests of their own beside these
CORPUS = 60  # inputs of a format


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Read]:
    @functools.cache
    def made(name: str) -> Read:
        return formats()[name].reader(tmp_path_factory.mktemp("read"))

    return made


@pytest.mark.parametrize("name", NAMES)
def test_sound_inputs_are_taken_and_damaged_ones_end_as_documented(name: str, reader: Callable[[str], Read]) -> None:
    kind, read = formats()[name], reader(name)
    assert [fault_of(kind, read, data) for data in kind.seeds()] == [("", "")] * len(kind.seeds())
    ends = [fault_of(kind, read, data) for data in inputs(kind, 0, CORPUS)]
    assert [wrong for wrong, _ in ends if wrong] == []
    assert len({refused for _, refused in ends}) > 1, "some are taken, some refused"


def edits(kind: Format) -> st.SearchStrategy[list[Edit]]:
    payloads = st.sampled_from([*HOSTILE, *NUMBERS, *kind.words]) | st.binary(max_size=4)
    edit = st.builds(Edit, kind=st.integers(0, KINDS - 1), at=st.integers(0, 2**16 - 1), size=st.integers(0, 400), payload=payloads)
    return st.lists(edit, max_size=5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
def test_any_damage_ends_as_documented(name: str, reader: Callable[[str], Read]) -> None:
    kind, read = formats()[name], reader(name)
    seeds = kind.seeds()

    @settings(max_examples=1500, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(seeds), edits(kind))
    def never_wrong(seed: bytes, changes: list[Edit]) -> None:
        assert fault_of(kind, read, edited(seed, seeds, changes))[0] == ""

    never_wrong()
