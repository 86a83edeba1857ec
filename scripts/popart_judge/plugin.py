"""A pytest plugin: runs PopART's tests on tilestep's `popart`, and writes what happens to each as it happens.

It is loaded by scripts/popart_judge/runner.py into a process for each file. One line of JSON per event: {"start": test},
{"test": test, "outcome": ..., "error": ..., "anchors": ...}, {"collection": error}, {"end": true}.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

import tilestep
from scripts.popart_judge import zeroed
from tilestep.popart.install import install

LOG: Final = "POPART_JUDGE_LOG"
ONLY: Final = "POPART_JUDGE_ONLY"  # a file with the functions to run, one a line
AGAIN_FROM: Final = "POPART_JUDGE_DONE"  # a file with the cases that have been run, one a line
MUTATE: Final = "POPART_JUDGE_MUTATE"
LONGEST: Final = 400
LINES: Final = 3
OLD_OPSET: Final = 11  # that a model had whose author named none
PACKAGE: Final = Path(tilestep.__file__).parent
# Names that NumPy had when the tests were written.
OLD_NUMPY: Final = {
    "int": int,
    "float": float,
    "object": object,
    "str": str,
    "complex": complex,
    "float_": np.float64,
    "NaN": np.nan,
    "Inf": np.inf,
    "product": np.prod,
    "cumproduct": np.cumprod,
}


def offer_old_names() -> None:
    """Gives NumPy, onnx and torch what later versions have dropped."""
    for name, value in OLD_NUMPY.items():
        if name not in vars(np):
            setattr(np, name, value)
    np.fromstring, np.linspace = _fromstring(np.fromstring), _linspace(np.linspace)
    import onnx
    from onnx import TensorProto, helper

    if not hasattr(onnx, "mapping"):
        mapping: Any = ModuleType("onnx.mapping")
        types = [number for number in TensorProto.DataType.values() if number != TensorProto.UNDEFINED]
        mapping.TENSOR_TYPE_TO_NP_TYPE = {number: helper.tensor_dtype_to_np_dtype(number) for number in types}
        mapping.NP_TYPE_TO_TENSOR_TYPE = {
            kind: number for number, kind in reversed(mapping.TENSOR_TYPE_TO_NP_TYPE.items()) if number != TensorProto.STRING
        }
        sys.modules["onnx.mapping"] = mapping
        onnx.mapping = mapping
    make_model = helper.make_model
    helper.make_model = lambda graph, **more: make_model(graph, **{"opset_imports": [helper.make_opsetid("", OLD_OPSET)], **more})
    if not hasattr(onnx, "load_from_string"):
        onnx.load_from_string = onnx.load_model_from_string
    # What uses pva looks inside the original's reports, and isn't run; the others in those files only import it.
    sys.modules.setdefault("pva", ModuleType("pva"))
    sys.meta_path.insert(0, OldModules())


def _fromstring(of_text: Callable[..., Any]) -> Callable[..., Any]:
    """np.fromstring with its binary mode."""

    def fromstring(string: Any, dtype: Any = float, count: int = -1, *, sep: str = "", **more: Any) -> Any:
        if sep:
            return of_text(string, dtype, count, sep=sep, **more)
        return np.frombuffer(string.encode("latin1") if isinstance(string, str) else string, dtype, count).copy()

    return fromstring


def _linspace(linspace: Callable[..., Any]) -> Callable[..., Any]:
    """np.linspace that works in float64 where its bounds are NumPy's scalars."""

    def in_doubles(start: Any, stop: Any, *rest: Any, **options: Any) -> Any:
        start, stop = (float(bound) if isinstance(bound, np.floating) else bound for bound in (start, stop))
        return linspace(start, stop, *rest, **options)

    return in_doubles


class OldModules(importlib.abc.MetaPathFinder):
    """Changes a module as soon as something has imported it, so that it is as it was when the tests were written."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        change = OLD_MODULES.get(fullname)
        spec = None if change is None else importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if change is not None and spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def then_change(module: Any) -> None:
                execute(module)
                change(module)

            loader.exec_module = then_change
        return spec


def export_by_tracing(module: Any) -> None:
    export = module.export
    module.export = lambda *arguments, **options: export(*arguments, **{"dynamo": False, **options})


def coefficients_of_a_ratio_alone(module: Any) -> None:
    interpolate = module.interpolate_nd
    module.interpolate_nd = lambda data, get_coeffs, *rest, **options: interpolate(
        data, lambda ratio, scale=None: get_coeffs(ratio), *rest, **options
    )


OLD_MODULES: Final[Mapping[str, Callable[[Any], None]]] = {
    "torch.onnx": export_by_tracing,
    "onnx.backend.test.case.node.resize": coefficients_of_a_ratio_alone,
}


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:  # these import popart
    install()
    offer_old_names()
    if os.environ.get(MUTATE) == "anchors":
        zeroed.install()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    only, done = _lines(ONLY), _lines(AGAIN_FROM)
    chosen = [
        item for item in items if (only is None or _function(item.nodeid) in only) and (done is None or _case(item.nodeid) not in done)
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
    _write({"collected": len(items)})


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E ")]
        _write({"collection": (lines[-1] if lines else str(report.longrepr).splitlines()[-1])[:LONGEST].removeprefix("E").strip()})


def pytest_runtest_logstart(nodeid: str) -> None:
    zeroed.SEEN.clear()
    _write({"start": _case(nodeid)})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: Any = yield
    if report.when == "call" or report.outcome != "passed":
        outcome, error = str(report.outcome), ""
        if hasattr(report, "wasxfail"):
            outcome = "passed" if report.outcome == "skipped" else "failed"
        elif call.excinfo is not None:
            error = _told(call.excinfo)
        _write({"test": _case(item.nodeid), "outcome": outcome, "error": error, "anchors": bool(zeroed.SEEN)})
    return report


def pytest_sessionfinish() -> None:
    _write({"end": True})


def _told(raised: pytest.ExceptionInfo[BaseException]) -> str:
    """The error's first lines in one, and where it was raised."""
    text = " | ".join(line.strip() for line in raised.exconly(tryshort=False).strip().splitlines()[:LINES])
    where = raised.traceback[-1]
    path = Path(str(where.path))
    ours = PACKAGE in path.parents
    return f"{text[:LONGEST]} ({path.relative_to(PACKAGE) if ours else path.name}:{where.lineno + 1})"


def _case(nodeid: str) -> str:
    return nodeid.partition("::")[2]


def _function(nodeid: str) -> str:
    return _case(nodeid).partition("[")[0]


def _lines(variable: str) -> frozenset[str] | None:
    path = os.environ.get(variable)
    return None if path is None else frozenset(Path(path).read_text(encoding="utf-8").splitlines())


def _write(event: dict[str, object]) -> None:
    with Path(os.environ[LOG]).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(event) + "\n")
