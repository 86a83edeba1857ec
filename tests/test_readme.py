"""What the documents show is what happens: their Python blocks and commands run, and print what stands below them."""

import doctest
import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.documents import (
    HAS_JAX_OF_FIGURES,
    Block,
    anchors,
    apply,
    blocks,
    commands,
    documents,
    links_to_anchors,
    local_links,
    near_output,
    refreshed,
)
from tests.in_turn import RunPython, in_turn
from tests.processes import ROOT

DOCUMENTS = documents(ROOT)
WITH_PYTHON = [path for path in DOCUMENTS if any(block.language == "python" for block in blocks(path.read_text(encoding="utf-8")))]
WITH_COMMANDS = [path for path in DOCUMENTS if any(block.language == "console" for block in blocks(path.read_text(encoding="utf-8")))]

# What a page's commands read, and its python blocks where those that make it can't run. Such a page runs in a folder of its own.
# A number is that of the page's python block which is the file.
FILES: dict[str, dict[str, str | int]] = {
    "docs/how-to/reports.md": {},
    "docs/how-to/dry-run.md": {"train.py": 1},
    "docs/how-to/sweeps.md": {"mlp.py": 0},
    "docs/how-to/how-many-ipus.md": {"my_model.py": 0},
    "docs/tutorials/what-limits-my-program.md": {name: f"examples/{name}" for name in ("mnist_plain.py", "datasets.py", "flags.py")},
    "docs/how-to/onnx.md": {"build/digits.onnx": "tests/conformance/from_torch/digits.onnx"},
    "docs/how-to/popart.md": {"digits.py": 0},
    "docs/how-to/pytorch.md": {
        "build/digits.onnx": "tests/conformance/from_torch/digits.onnx",
        "build/digits.npz": "tests/conformance/from_torch/digits.npz",
    },
}

# Pages whose code takes long: it runs in `make test-all`.
LONG = (
    "docs/how-to/how-many-ipus.md",
    "docs/how-to/performance.md",
    "docs/how-to/pipelines.md",
    "docs/how-to/popart-ipus.md",
    "docs/how-to/pytorch.md",
    "docs/tutorials/pipeline.md",
    "docs/tutorials/three-steps.md",
    "docs/tutorials/what-limits-my-program.md",
)

# The blocks of one document share a namespace, so that one may build on those before it.
RUN_BLOCKS = """
import contextlib, io, json, sys
path, blocks = json.load(sys.stdin)
namespace, outputs = {"__name__": "__main__"}, []
for line, text in blocks:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile("\\n" * (line - 1) + text, path, "exec"), namespace)
    outputs.append(output.getvalue())
print(json.dumps(outputs))
"""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def same_output(shown: str, printed: str) -> bool:
    """Whether output is as shown; '...' stands for anything, and runs of blanks count as one."""
    return doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


def is_as_shown(shown: str, printed: str) -> bool:
    """Whether output is as shown; with another JAX than the documents' its figures may be near."""
    return same_output(shown, printed) or (not HAS_JAX_OF_FIGURES and near_output(shown, printed))


def folder_of(path: Path, own: Path) -> Path:
    """Where a page's code runs: in the project's root, or in `own` if it wants files, which are put there."""
    files = FILES.get(name_of(path), {})
    for place, source in files.items():
        (own / place).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, int):
            (own / place).write_text(python_blocks_of(path)[source].text, encoding="utf-8")
        else:
            shutil.copy(ROOT / source, own / place)
    return own if name_of(path) in FILES else ROOT


def python_blocks_of(path: Path) -> list[Block]:
    return [block for block in blocks(path.read_text(encoding="utf-8")) if block.language == "python"]


def runnable(python_blocks: list[Block]) -> list[Block]:
    """The blocks whose packages are installed."""
    return [block for block in python_blocks if block.needs is None or find_spec(block.needs) is not None]


@pytest.fixture(scope="module")
def run_python() -> Iterator[RunPython]:
    """One process for the code of all documents, apart from that of other tests because tilestep.popart stays imported."""
    with in_turn() as run:
        yield run


def wrong_outputs(run_python: RunPython, path: Path, python_blocks: list[Block], folder: Path = ROOT) -> list[str]:
    """Runs a document's blocks in a folder; 'file:line prints ...' for each that prints something else than shown."""
    request = json.dumps([str(path), [(block.line, block.text) for block in python_blocks]])
    done = run_python("-c", RUN_BLOCKS, text_in=request, folder=folder)
    assert done.returncode == 0, done.stderr
    return [
        f"{path}:{block.line} prints\n{printed}but shows\n{block.shown}"
        for block, printed in zip(python_blocks, json.loads(done.stdout), strict=True)
        if block.shown is not None and not is_as_shown(block.shown, printed)
    ]


def page(path: Path) -> Any:
    return pytest.param(path, id=name_of(path), marks=pytest.mark.slow if name_of(path) in LONG else ())


@pytest.mark.parametrize("path", [*map(page, WITH_PYTHON)])
def test_python_blocks_run_and_print_what_is_shown(path: Path, run_python: RunPython, tmp_path: Path) -> None:
    assert wrong_outputs(run_python, path, runnable(python_blocks_of(path)), folder_of(path, tmp_path)) == []


@pytest.mark.parametrize("path", [*map(page, WITH_COMMANDS)])
def test_commands_of_tilestep_run_and_print_what_is_shown(path: Path, update_golden: bool, run_python: RunPython, tmp_path: Path) -> None:
    folder = folder_of(path, tmp_path)
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.language == "diff" and name_of(path) in FILES:
            apply(block, folder)
        for command, shown in commands(block) if block.language == "console" else []:
            program, *arguments = shlex.split(command)
            if program != "tilestep":
                continue
            done = run_python("-m", "tilestep", *arguments, folder=folder)
            assert done.returncode == 0, f"{command}: {done.stderr}"
            printed = done.stdout + done.stderr
            if shown.strip() and update_golden:
                text = path.read_text(encoding="utf-8")
                path.write_text(text.replace(shown, refreshed(shown, printed)), encoding="utf-8")
            elif shown.strip() and not is_as_shown(shown, printed):
                pytest.fail(f"{name_of(path)}: `{command}` prints\n{printed}but shows\n{shown}", pytrace=False)


def test_a_block_that_needs_a_package_runs_where_that_is_installed() -> None:
    document = "<!-- needs json -->\n```python\nprint(1)\n```\n\n<!-- needs no_such_package -->\n```python\nprint(2)\n```\n"
    there, missing = blocks(document)
    assert (there.needs, there.line, missing.needs) == ("json", 3, "no_such_package")
    assert runnable([there, missing]) == [there]


def test_the_readme_runs_something() -> None:
    assert ROOT / "README.md" in WITH_PYTHON


def test_links_lead_to_files_and_named_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        assert [link for link in local_links(text) if not (path.parent / link).exists()] == [], path
        for page, anchor in links_to_anchors(text):
            assert anchor in anchors((path.parent / page if page else path).read_text("utf-8")), path
        assert set(re.findall(r"(?:^\$ |`)make ([a-z-]+)", text, re.MULTILINE)) <= targets, path


def test_every_dependency_has_its_licence_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = project["dependencies"] + [one for group in project["optional-dependencies"].values() for one in group]
    names = {re.split(r"[\[<>=]", requirement)[0] for requirement in requirements} - {"tilestep"}
    listed = set(re.findall(r"^\| ([\w-]+) \|", (ROOT / "docs" / "reference" / "licences.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert names - listed == set()
