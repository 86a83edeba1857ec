"""The notebooks are their scripts: the same cells, and outputs that running them gives."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.processes import AS_USERS_COMPILE, ROOT, run_python

NOTEBOOKS = runpy.run_path(str(ROOT / "scripts" / "notebooks.py"))
EXAMPLES = ROOT / "examples"
NAMES: list[str] = NOTEBOOKS["names"]()
HELPERS = {"datasets", "flags"}


def committed(name: str) -> dict[str, Any]:
    return json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))


def without_outputs(document: dict[str, Any]) -> dict[str, Any]:
    emptied = {"execution_count": None, "outputs": []}
    return document | {"cells": [cell | emptied if cell["cell_type"] == "code" else cell for cell in document["cells"]]}


def test_every_example_is_a_script_and_a_notebook() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} - HELPERS == set(NAMES)
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == set(NAMES)


def test_a_notebook_has_its_scripts_cells_executed_in_order_and_shows_something() -> None:
    for name in NAMES:
        script, notebook = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8"), committed(name)
        assert without_outputs(notebook) == NOTEBOOKS["notebook"](NOTEBOOKS["cells"](script)), name
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1)), name
        outputs = [output for cell in code for output in cell["outputs"]]
        assert {(output["output_type"], output.get("name")) for output in outputs} == {("stream", "stdout")}, name


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_what_running_it_gives(name: str, update_golden: bool) -> None:
    done = run_python("scripts/notebooks.py", name, *(() if update_golden else ("--check",)), environ=AS_USERS_COMPILE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_warning_or_a_failing_cell_makes_no_notebook(tmp_path: Path) -> None:
    executed, notebook, cell = (NOTEBOOKS[name] for name in ("executed", "notebook", "Cell"))
    with pytest.raises(ValueError, match="cell-0 writes to stderr"):
        executed(notebook([cell("code", "import warnings; warnings.warn('careful')")]))
    with pytest.raises(Exception, match="ZeroDivisionError"):
        executed(notebook([cell("code", "1 / 0")]))
