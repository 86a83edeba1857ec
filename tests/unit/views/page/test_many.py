"""Recordings with many rows: what a page or `report show` needs of each takes no longer where there are more."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.figures.reader.recorded import report_of, two_stages
from tilestep.figures.reader import Report
from tilestep.figures.rows import step_rows
from tilestep.recording.builder import Builder
from tilestep.recording.tables import Tables, json_text
from tilestep.views.page.sections.comparison import comparison
from tilestep.views.page.sections.registry import SECTIONS

FEW = 30
LOOKS = Counter[str]()


class Looked(np.ndarray):
    """An array that counts its elements in `LOOKS` whenever all of them are looked at."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return counted(getattr(ufunc, method), inputs, options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.searchsorted and np.asarray(args[1]).dtype == args[0].dtype:  # which looks at few of them
            return func(*map(plain, args), **kwargs)
        return counted(func, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        found: Any = self.view(np.ndarray)[plain(key)]
        LOOKS["elements"] += np.size(found)
        return found.view(Looked) if isinstance(found, np.ndarray) else found

    def astype(self, *args: Any, **options: Any) -> Any:
        return counted(np.ndarray.astype, (self, *args), options)

    def tolist(self) -> Any:
        return counted(np.ndarray.tolist, (self,), {})


def counted(function: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    given = [plain(each) for each in inputs]
    LOOKS["elements"] += max((size(each) for each in given), default=0)
    found: Any = function(*given, **{name: plain(each) for name, each in options.items()})
    return found.view(Looked) if isinstance(found, np.ndarray) else found


def plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return value.view(np.ndarray) if isinstance(value, Looked) else value


def size(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(map(size, value))
    return value.size if isinstance(value, np.ndarray) else 1


class Texts(list[str]):
    """Texts that count how often all of them are looked at."""

    def __iter__(self) -> Iterator[str]:
        LOOKS["elements"] += len(self)
        return super().__iter__()


@final
class Counting:
    """A recording that counts what is looked at."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.manifest, self.strings = tables.manifest, Texts(tables.strings)

    def has(self, table: str) -> bool:
        return self._tables.has(table)

    def rows(self, table: str) -> int:
        return self._tables.rows(table)

    def column(self, table: str, column: str) -> NDArray[Any]:
        return self._tables.column(table, column).view(Looked)

    def text(self, name: str) -> str:
        LOOKS[name] += 1
        return self._tables.text(name)


def many(programs: int, *, runs: int) -> Counting:
    """A recording of programs, each with lives, sums and trips, that ran by turns."""
    builder, small = Builder(kind="run", notes={}), report_of(two_stages()).tables
    for key in range(programs):
        builder.append(
            "programs",
            key=key,
            name=f"p{key % max(1, programs * 3 // 4)}",
            fingerprint=f"{key:x}",
            num_ipus=1,
            origin="user",
            group=-1,
            detailed=1,
            runs=runs // programs,
            loads=1,
        )
    row, each = np.arange(runs), np.arange(programs)
    none, zero = row * 0 - 1, row * 0
    builder.extend("runs", program=row % programs, host_cycle=row, group=none, entry=zero, stage=none, task=none, microbatch=none)
    builder.append("lanes", kind=1, number=0, target=-1)
    builder.extend("events", lane=zero, kind=zero, start=row * 10, end=row * 10 + 9, run=row, program=row % programs, cause=row - 1)
    builder.extend("sums", program=each, ipu=each * 0, kind=each * 0, cycles=each)
    builder.extend("trips", run=row, position=zero, site=zero, arm=zero, times=zero + 2)
    builder.extend("counts", program=each, ipu=each * 0, site=each * 0, arm=each * 0, times=each * 0 + 2)
    for key in range(20 * programs):
        builder.append("frames", file=f"{key}.py" if key else -1, function=-1, line=key, column=0, parent=0)
    size = {"size_bytes": each + 64, "tile_bytes": each * 0 + 4, "tiles": each * 0 + 16, "start_tile": each * 0}
    builder.extend("lives", program=each, name=each, category=each * 0, first=each * 0, last=each * 0, frame=each * 0, **size)
    builder.extend("ticks", program=each, step=each, leaf=each * 0 - 1, temporary_tile_bytes=each * 0)
    builder.extend("code", program=each, kind=each, tile_bytes=each * 0 + 8, fixed=each * 0)
    builder.put_json("machine", json_text(small, "machine"))
    builder.put_json("trees", json_text(small, "trees") * programs)
    return Counting(builder.tables())


def with_itself(report: Report) -> None:
    comparison(report, report)


@pytest.mark.parametrize("of", [step_rows, *SECTIONS.values(), with_itself], ids=lambda of: of.__name__)
def test_twice_the_programs_and_runs_need_twice_the_looks(of: Any) -> None:
    looks: list[int] = []
    for programs in (FEW, 2 * FEW):
        tables = many(programs, runs=4 * programs)
        LOOKS.clear()
        of(Report(tables))
        looks.append(LOOKS["elements"])
        assert all(times <= 3 for name, times in LOOKS.items() if name != "elements"), LOOKS
    assert looks[1] < 2.4 * looks[0] + 100, looks
