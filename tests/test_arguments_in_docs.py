"""Each argument of what `tilestep.train` offers is named by a document that names what it is an argument of."""

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from tests.processes import ROOT
from tilestep import settings, train
from tilestep.train import schedules
from tilestep.train.schedules import schedule

MADE_BY_THE_RUNTIME = {  # nobody calls these: they are read
    "AccumulationState",
    "JointState",
    "LoopState",
    "Partition",
    "PendingFeeds",
    "PipelineState",
    "ReplicaDifference",
    "Shard",
    "Timeline",
}

OFFERED: dict[str, Callable[..., Any]] = {
    **{name: getattr(train, name) for name in train.__dict__ if inspect.isfunction(getattr(train, name)) and not name.startswith("_")},
    **{name: getattr(train, name) for name in train.__dict__ if inspect.isclass(getattr(train, name)) and name not in MADE_BY_THE_RUNTIME},
    **{f"Pipeline.{name}": getattr(train.Pipeline, name) for name in ("init", "step", "run")},
    **{f"Schedule.{name}": getattr(train.Schedule, name) for name in ("simulate", "show", "plot")},
    **{f"schedules.{name}": make for name, make in schedules.SCHEDULES.items()},
    "schedules.offloading": schedules.offloading,
    "from_table": schedule.from_table,
}


@functools.cache
def code() -> dict[str, str]:
    """What stands in each document as code: blocks, and what is between backquotes."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        blocks = re.compile(r"^```.*?^```|^    .*?$", re.MULTILINE | re.DOTALL)
        found[path.name] = "\n".join([*blocks.findall(text), *re.findall(r"`[^`]+`", blocks.sub("", text))])
    return found


def unnamed(name: str, offered: Callable[..., Any]) -> list[str]:
    """Arguments that callers give by name, and no document has."""
    parameters = [
        each.name
        for each in inspect.signature(offered).parameters.values()
        if each.default is not each.empty or each.kind is each.KEYWORD_ONLY or name == "Pipeline"
    ]
    own = name.rpartition(".")[2]
    pages = [text for text in code().values() if re.search(rf"\b{own}\b", text)]
    if name == "Pipeline":
        pages = [code()["pipeline-options.md"]]
    return [each for each in parameters if not any(re.search(rf"\b{each}\b", text) for text in pages)]


def test_a_document_names_each_argument() -> None:
    assert {name: missing for name, offered in OFFERED.items() if (missing := unnamed(name, offered))} == {}


def test_the_page_of_settings_names_each_setting() -> None:
    named = re.findall(r"^\| (\w+) +\|", settings.__doc__ or "", re.MULTILINE)
    assert "PVTI_OPTIONS" in named
    assert [name for name in named if not re.search(rf"`{name}`", (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8"))] == []


def test_what_the_runtime_makes_is_still_there() -> None:
    assert {name for name in train.__dict__ if inspect.isclass(getattr(train, name))} >= MADE_BY_THE_RUNTIME
