"""The model predicts rows of measurements that it doesn't know: nothing in it asks for a row's name, its words or its sizes."""

import ast
import csv
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODEL = [path for layer in ("program", "cost", "plan", "sim") for path in (ROOT / "src" / "tilestep" / layer).rglob("*.py")]
DATA = ROOT / "benchmarks" / "data"
OUTSIDE = "outside_measurements"
MEASUREMENTS = [DATA / "ipu_measurements.csv", DATA / f"{OUTSIDE}.csv"]
LARGE = 100  # sizes that hardly mean anything else, but for powers of two
WORDS = re.compile(
    r"\b(bricks|cheese|bert|yolo|mish|gpt|swin|resnet|resnext|vit|efficientnet|conformer|squad|poplin|aliev|panfilov|stream triad)\b"
)


def measured() -> tuple[set[str], set[int]]:
    """Names of all rows, and the sizes that their shapes have."""
    rows: list[dict[str, str]] = []
    for path in MEASUREMENTS:
        with path.open(newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    sizes = {int(size) for row in rows for size in re.findall(r"\d+", row["shape"])}
    return {row["id"] for row in rows}, {size for size in sizes if size >= LARGE and size & (size - 1)}


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of every name and every string that is no docstring."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id


def compared(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """(line, number) of every whole number that something is compared with, or looked up in."""
    for node in ast.walk(tree):
        roots = (
            [key for key in node.keys if key]
            if isinstance(node, ast.Dict)
            else [node]
            if isinstance(node, ast.Compare | ast.MatchValue)
            else []
        )
        for inner in (inner for root in roots for inner in ast.walk(root)):
            if isinstance(inner, ast.Constant) and type(inner.value) is int:
                yield inner.lineno, inner.value


def test_the_model_asks_for_no_row() -> None:
    names, sizes = measured()
    found: list[str] = []
    for path in MODEL:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        where = path.relative_to(ROOT)
        for line, text in texts(tree):
            if names & set(re.findall(r"\w+", text)) or WORDS.search(text.casefold()):
                found.append(f"{where}:{line} has {text!r}")
        found += [f"{where}:{line} compares with {number}" for line, number in compared(tree) if number in sizes]
    assert found == []


def reads_rows_outside_the_fit(text: str) -> bool:
    """Whether a program names their file, or the constant that does."""
    return OUTSIDE in text or re.search(r"\bOUTSIDE\b", text) is not None


def test_no_program_that_fits_reads_rows_outside_the_fit() -> None:
    programs = [path for folder in ("scripts", "benchmarks") for path in (ROOT / folder).rglob("*.py") if "fit" in path.stem]
    assert [path for path in programs if reads_rows_outside_the_fit(path.read_text(encoding="utf-8"))] == []
    assert reads_rows_outside_the_fit((ROOT / "benchmarks" / "accuracy.py").read_text(encoding="utf-8"))
