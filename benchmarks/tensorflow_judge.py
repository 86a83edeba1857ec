"""Do public programs for TensorFlow for the IPU run to their end as they are?

    benchmarks/tensorflow_judge.py CHECKOUTS --json benchmarks/results/tensorflow_judge.json    all programs, and the record
    benchmarks/tensorflow_judge.py CHECKOUTS --only pipelining                                  some of them
    benchmarks/tensorflow_judge.py --table                                                      the record as rows for the docs

CHECKOUTS has a clone of each repository that `data/tensorflow_programs.csv` names, such as CHECKOUTS/graphcore/tutorials. That list has all
TensorFlow programs of its folders; it was made before any of them was run. A program runs as it is, by `tilestep run --tensorflow=1` or
`=2`, with random arrays in the place of downloads (`tensorflow_stand_ins.py`), in a copy of its repository at the listed commit.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

from benchmarks.commit import commit
from tilestep.cli import main as tilestep_command

HERE: Final = Path(__file__).resolve().parent
STAND_INS: Final = str(HERE / "tensorflow_stand_ins.py")
PROGRAMS: Final = HERE / "data" / "tensorflow_programs.csv"
RECORD: Final = HERE / "results" / "tensorflow_judge.json"
IPUS: Final = 16  # as many as the largest program asks for
SECONDS: Final = 600
MOST_CHARACTERS: Final = 300  # of a failure
BARS: Final = "at most a quarter is excluded; of the rest, 90 % run to their end"


def programs() -> list[dict[str, str]]:
    """The rows of the list."""
    with PROGRAMS.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def path_of(row: Mapping[str, str]) -> str:
    """A program's path in its repository."""
    return f"{row['folder']}/{row['program']}"


def copy_of(checkout: Path, wanted: str, to: Path) -> Path:
    """A copy of a repository at a commit."""
    archive = subprocess.run(["git", "-C", str(checkout), "archive", wanted], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(to, filter="data")
    return to


@dataclass(frozen=True, kw_only=True)
class Running:
    """A program that runs in a process of its own."""

    row: Mapping[str, str]
    process: int
    output: IO[str]
    begin: float

    def result(self, seconds: float) -> dict[str, Any] | None:
        """Its row of the record, once it has ended or has had its time; else None."""
        wall_s = time.perf_counter() - self.begin
        done, status = os.waitpid(self.process, os.WNOHANG)
        if not done and wall_s < seconds:
            return None
        if not done:
            os.killpg(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        self.output.seek(0)
        said = self.output.read()
        self.output.close()
        result = "over time" if not done else "ran" if os.waitstatus_to_exitcode(status) == 0 else "failed"
        why = {} if result == "ran" else {"why": reason(said) if done else f"stopped after {seconds:.0f} s"}
        idle = {"nothing_on_ipu": True} if result == "ran" and "tilestep: nothing ran on" in said else {}
        return {**about(self.row), "result": result, "wall_s": round(wall_s, 1), **why, **idle, "output": said}


def start(row: Mapping[str, str], copy: Path) -> Running:
    """Starts a program in a fork of this process, which has imported what every program needs."""
    program = copy / path_of(row)
    words = ["run", f"--tensorflow={row['tensorflow']}", "--ipus", str(IPUS), "--no-intervals", STAND_INS, str(program)]
    output, begin = tempfile.TemporaryFile("w+"), time.perf_counter()  # noqa: SIM115  result() closes it
    process = os.fork()
    if not process:
        os.setsid()
        os.chdir(program.parent)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        run_and_leave([*words, *shlex.split(row["arguments"])])
    return Running(row=row, process=process, output=output, begin=begin)


def run_and_leave(words: Sequence[str]) -> None:
    """`tilestep` with these words; the process ends with its exit code."""
    code = 1
    try:
        code = tilestep_command(list(words))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def about(row: Mapping[str, str]) -> dict[str, Any]:
    """What the record says of a program beside its result."""
    return {"program": path_of(row), "repository": row["repository"], "tensorflow": int(row["tensorflow"]), "arguments": row["arguments"]}


def reason(said: str) -> str:
    """The exception that a program ended by, with the line that says more of it; else its last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    names = [line.partition(":")[0] for line in lines]
    found = [index for index, name in enumerate(names) if name.endswith("Error") and " " not in name]
    if not found:
        return (lines or [""])[-1][:MOST_CHARACTERS]
    rest = [line for line in lines[found[-1] + 1 :] if "Error: " in line or "annot " in line]
    whole = " ".join([lines[found[-1]], *rest[:1]]) if lines[found[-1]].endswith(":") else lines[found[-1]]
    return re.sub(r" \(/tmp/\S*\)", "", whole)[:MOST_CHARACTERS]


def counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How the results stand against the bars."""
    excluded = sum(row["result"] == "excluded" for row in rows)
    ran = sum(row["result"] == "ran" for row in rows)
    idle = sum(row.get("nothing_on_ipu", False) for row in rows)
    return {"programs": len(rows), "excluded": excluded, "judged": len(rows) - excluded, "ran": ran, "nothing_on_ipu": idle, "bars": BARS}


def table() -> str:
    """The record, as Markdown."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    lines = ["| program | TensorFlow | arguments | result | values |", "|---|---|---|---|---|"]
    for row in record["answers"]:
        why = row.get("why", "").replace("|", "\\|") or "nothing of it on an IPU" * row.get("nothing_on_ipu", False)
        arguments = f"`{row['arguments']}`" if row["arguments"] else ""
        found = row.get("values")
        values = "" if found is None else found.get("failed") or f"{found['numbers']} within {found['largest_difference']:.1e}"
        lines.append(f"| `{row['program']}` | {row['tensorflow']} | {arguments} | {row['result']}{f': {why}' if why else ''} | {values} |")
    return "\n".join(lines)


def judge(rows: Sequence[Mapping[str, str]], checkouts: Path, seconds: float, jobs: int, outputs: Path) -> list[dict[str, Any]]:
    """Runs each program that is not excluded, and keeps what it prints. Returns: the record's rows."""
    answers = [{**about(row), "result": "excluded", "why": row["excluded"]} for row in rows if row["excluded"]]
    left = [row for row in rows if not row["excluded"]]
    outputs.mkdir(parents=True, exist_ok=True)
    running: list[Running] = []
    for name in ("tilestep.tensorflow", "tf_keras.datasets", "tf_keras.api._v1.keras.datasets", "tf_keras.api._v2.keras.datasets"):
        import_module(name)  # forks need not import what each program needs; tilestep's first, which chooses this Keras
    with tempfile.TemporaryDirectory() as folder:
        copies = {
            (repository, wanted): copy_of(checkouts / repository, wanted, Path(folder) / repository.replace("/", "+"))
            for repository, wanted in dict.fromkeys((row["repository"], row["commit"]) for row in left)
        }
        while left or running:
            while left and len(running) < jobs:
                row = left.pop(0)
                running.append(start(row, copies[row["repository"], row["commit"]]))
            for each in list(running):
                result = each.result(seconds)
                if result is not None:
                    running.remove(each)
                    said = result.pop("output")
                    (outputs / f"{result['program'].replace('/', '+')}.txt").write_text(said, encoding="utf-8")
                    print(f"{result['result']:10} {result['wall_s']:6.1f} s  {result['program']}  {result.get('why', '')}", flush=True)
                    answers.append(result)
            time.sleep(0.1)
    return answers


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "checkouts", type=Path, nargs="?", metavar="CHECKOUTS", help="a folder with graphcore/tutorials and graphcore/examples"
    )
    parser.add_argument("--only", metavar="WORD", nargs="+", default=[""], help="programs that have one of these words in their path")
    parser.add_argument("--tensorflow", choices=("1", "2"), help="those of one version")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help=f"at most for one program (default {SECONDS})")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="programs at a time (default 1)")
    parser.add_argument("--outputs", type=Path, default="outputs", metavar="DIR", help="where to put what each program prints")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE; rows that did not run now stay in it")
    parser.add_argument("--table", action="store_true", help="print the record as a table")
    options = parser.parse_args(arguments)
    if options.table:
        print(table())
        return
    if options.checkouts is None:
        parser.error("CHECKOUTS is missing: a folder with graphcore/tutorials and graphcore/examples")
    chosen = [
        row for row in programs() if any(word in path_of(row) for word in options.only) and options.tensorflow in (None, row["tensorflow"])
    ]
    answers = {row["program"]: row for row in judge(chosen, options.checkouts, options.seconds, options.jobs, options.outputs)}
    print(counts(list(answers.values())))
    if options.json:
        before = json.loads(options.json.read_text(encoding="utf-8"))["answers"] if options.json.exists() else []
        before = {row["program"]: row for row in before}
        values = {name: {"values": row["values"]} for name, row in before.items() if "values" in row}  # of tensorflow_values.py
        answers = before | {name: row | values.get(name, {}) for name, row in answers.items()}
        listed = [answers[path_of(row)] for row in programs() if path_of(row) in answers]
        record = {
            "question": (__doc__ or "").splitlines()[0],
            "commit": commit(),
            "repositories": dict(sorted({row["repository"]: row["commit"] for row in programs()}.items())),
            "versions": {name: version(name) for name in ("tensorflow", "tf_keras", "jax", "jaxlib", "numpy", "tilestep")},
            "counts": counts(listed),
            "answers": listed,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
