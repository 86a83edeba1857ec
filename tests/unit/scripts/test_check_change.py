"""Which tests a change calls for."""

from pathlib import Path

import pytest

from scripts.check_change import chosen_tests


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for file in ("cost/test_gather.py", "train/test_numbers.py", "train/loop/test_carry.py", "test_settings.py", "benchmarks/test_rows.py"):
        path = tmp_path / "tests" / "unit" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        (["src/tilestep/cost/gather.py"], ["tests/unit/cost"]),
        (["src/tilestep/train/loop/carry.py"], ["tests/unit/train/loop"]),
        (["src/tilestep/train/feeds/chunks.py"], ["tests/unit/train"]),  # the nearest folder that there is
        (["src/tilestep/settings.py"], ["tests/unit/test_settings.py"]),
        (["benchmarks/accuracy.py"], ["tests/unit/benchmarks"]),
        (["docs/index.md", "src/tilestep/errors.py", "src/tilestep/sim/runs/execute.py"], []),
        (["src/tilestep/cost/gather.py", "tests/unit/cost/test_gather.py"], ["tests/unit/cost/test_gather.py", "tests/unit/cost"]),
        (["src/tilestep/cost/gather.py", "src/tilestep/cost/sort.py"], ["tests/unit/cost"]),
        (["tests/unit/cost/test_gone.py"], []),
    ],
)
def test_a_change_calls_for_the_tests_of_its_rooms(root: Path, changed: list[str], chosen: list[str]) -> None:
    assert chosen_tests([Path(name) for name in changed], root) == chosen


def test_tests_within_a_chosen_folder_are_chosen_once(root: Path) -> None:
    changed = [Path("src/tilestep/train/numbers.py"), Path("src/tilestep/train/loop/carry.py")]
    assert chosen_tests(changed, root) == ["tests/unit/train"]
