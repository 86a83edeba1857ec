"""A run's summary, `report show` of its recording, its JSON and its page say the same of it, in every number."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

import tilestep
from tests.unit.popart.session.emulation.models import Chain, emulated, one_stage, options
from tilestep.cli import main
from tilestep.errors import TileMemoryError
from tilestep.figures.reader import Compilation, Report, Target
from tilestep.profiling.measure import profile_of
from tilestep.settings import read_settings
from tilestep.sim.trace import BESIDE
from tilestep.train import InfeedQueue, OutfeedQueue, Pipeline, repeat
from tilestep.views.page.sections.findings import findings
from tilestep.views.page.sections.head import head
from tilestep.views.stored import FIGURES, stored_profile

Ipus = Sequence[jax.Device]


def several(ipus: Ipus) -> None:
    first, second = jax.jit(lambda x: x @ x), jax.jit(lambda x: jnp.tanh(x))
    x = np.ones((64, 64), np.float32)
    for _ in range(4):
        x = second(first(x))


def counted(ipus: Ipus) -> None:
    f = jax.jit(lambda x, n: lax.fori_loop(0, n, lambda _, x: jnp.tanh(x @ x), x))
    for n in range(4):
        f(np.ones((32, 32), np.float32), n)


def loop(ipus: Ipus) -> None:
    x = np.random.default_rng(0).normal(size=(70, 4, 2)).astype(np.float32)
    outfeed = OutfeedQueue()

    def step(w: Any, x: Any) -> Any:
        outfeed.enqueue(w.sum())
        return w - 0.1 * x.mean()

    repeat(70, step, np.zeros(2, np.float32), InfeedQueue(list(x)), outfeed)


def pipeline(ipus: Ipus) -> None:
    stages = [lambda w, x, y: (jnp.tanh(x @ w), y), lambda w, x, y: jnp.mean((x @ w - y) ** 2)]
    made = Pipeline(stages, optax.adam(0.05), gradient_accumulation_count=4, device_mapping=[0, 1], devices=ipus)
    state = made.init([np.eye(2, 16, dtype=np.float32), np.ones(16, np.float32)])
    for _ in range(5):
        state, _ = made.step(state, (np.ones((4, 8, 2), np.float32), np.ones((4, 8), np.float32)))


def sharded(ipus: Ipus) -> None:
    mesh = jax.sharding.Mesh(np.array(ipus[:2]), "x")
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    f = jax.jit(lambda x: (x @ x.T).sum())
    for _ in range(4):
        f(jax.device_put(np.ones((8, 8), np.float32), rows))


def refused(ipus: Ipus) -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match=TileMemoryError.__name__):
        jax.jit(lambda x: x @ x).lower(jax.ShapeDtypeStruct((20_000, 20_000), np.float32)).compile()


def dry_and_too_large(ipus: Ipus) -> None:
    with tilestep.dry_run():
        jax.jit(lambda x: x @ x)(jnp.zeros((20_000, 20_000)))


def plain(ipus: Ipus) -> None:
    step = jax.jit(lambda w, x: w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w), donate_argnums=0)
    w: Any = jax.device_put(np.ones((32, 8), np.float32), ipus[0])
    for number in range(12):
        w = step(w, np.full((16, 32), number, np.float32))


def evaluated(ipus: Ipus) -> None:
    """Steps with an evaluation after each fourth, whose result the host reads."""
    step, evaluate = jax.jit(lambda w, x: w + jnp.tanh(x @ w)), jax.jit(lambda w: (w**2).mean())
    w: Any = np.ones((16, 16), np.float32)
    for number in range(24):
        w = step(w, np.full((16, 16), number, np.float32))
        if number % 4 == 3:
            float(evaluate(w))


def single_operations(ipus: Ipus) -> None:
    x = jnp.ones((16, 16))
    for _ in range(3):
        x = jnp.sqrt(x @ x) + 1


def scanned(ipus: Ipus) -> None:
    """Epochs of five batches in one program."""
    epoch = jax.jit(lambda w, xs: lax.scan(lambda w, x: (w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w), None), w, xs)[0])
    w: Any = np.ones((8, 2), np.float32)
    for number in range(8):
        w = epoch(w, np.full((5, 16, 8), number, np.float32))


def offloaded(ipus: Ipus) -> None:
    """A state that is in pinned_host between steps."""
    there = jax.sharding.SingleDeviceSharding(ipus[0], memory_kind="pinned_host")
    here = jax.sharding.SingleDeviceSharding(ipus[0], memory_kind="device")
    step = jax.jit(lambda s, x: s + jax.device_put(jnp.tanh(jax.device_put(s, here) @ x), there), out_shardings=there, donate_argnums=0)
    state: Any = jax.device_put(np.ones((16, 16), np.float32), there)
    for number in range(6):
        state = step(state, np.full((16, 16), number, np.float32))


def replicated(ipus: Ipus) -> None:
    """A pipeline of two replicas."""
    stages = [lambda w, x, y: (jnp.tanh(x @ w), y), lambda w, x, y: jnp.mean((x @ w - y) ** 2)]
    made = Pipeline(stages, optax.sgd(0.05), 4, devices=ipus, replicas=2)
    state = made.init([np.eye(2, 16, dtype=np.float32), np.ones((16, 1), np.float32)])
    for number in range(5):
        state, _ = made.step(state, (np.full((4, 2, 8, 2), number, np.float32), np.full((4, 2, 8, 1), number, np.float32)))


PROGRAMS: tuple[Callable[[Ipus], None], ...] = (
    *(several, counted, loop, pipeline, sharded, refused, dry_and_too_large),
    *(plain, evaluated, single_operations, scanned, offloaded, replicated),
)


def require_page_agrees(report: Report, document: Any) -> None:
    """What the page has of its own is what the profile says."""
    shown = head(report).json
    if not document["programs"]:
        return
    for name in ("emulated_cycles", "busiest_ipu"):
        assert shown[name] == document[name], name
    kinds = {kind: cycles for kind, cycles in document["cycles_by_kind"].items() if kind != "idle"}
    assert {kind: cycles for kind, cycles in shown["cycles_by_kind"].items() if kind not in BESIDE} == kinds
    assert shown["verdict"] == ("" if document["verdict"] is None else document["verdict"]["text"])
    rows = {row["key"]: row for row in shown["programs"]}
    for program in document["programs"]:
        row, cycles = rows[program["key"]], program["cycles"]
        assert row["cycles"] == sum(spent for kind, spent in cycles.items() if kind != "beside"), program["name"]
        assert row["cycles_by_kind"].get("load", 0) == cycles["load"]
        assert (row["runs"], row["loads"], row["num_ipus"]) == (program["runs"], program["loads"], program["num_ipus"])
        assert row["peak_tile_bytes"] == program["peak_tile_bytes"]
        assert row["flops_per_run"] == program["flops"]
    block = findings(report)
    assert block is not None
    steady = block.json["steady"]
    assert (steady is None) == (document["steady"] is None)
    assert steady is None or steady == {name: document["steady"][name] for name in steady}
    told = [each for each in block.json["found"] if each["text"] in {finding["text"] for finding in document["findings"]}]
    assert [each["gain"] and each["gain"]["cycles"] for each in told if each["part"] != "fixed"] == [
        finding["gain_cycles"] for finding, each in zip(document["findings"], told, strict=True) if each["part"] != "fixed"
    ]


@pytest.mark.few(5)
@pytest.mark.parametrize("program", PROGRAMS)
def test_all_ways_to_see_a_run_agree(
    program: Callable[[Ipus], None], ipus: Ipus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tilestep.profile(tmp_path), jax.default_device(ipus[0]):
        program(ipus)
    report = tilestep.open_report(tmp_path)
    document = json.loads((tmp_path / "profile.json").read_text(encoding="utf-8"))
    del document["timeline"]
    assert report.profile == document
    summary = (tmp_path / "summary.txt").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["report", "show", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith(summary)
    assert main(["report", "show", str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["profile"] == document
    require_page_agrees(report, document)
    require_figures_of_tables(report)


def require_figures_of_tables(report: Report) -> None:
    """The figures are those that the tables of the file give."""
    stored = stored_profile(report)
    assert stored is not None
    machine = read_settings().machine  # which has the sources of its figures
    assert report.target.machine == replace(machine, sources=report.target.machine.sources)
    found = profile_of(Compilation(report.tables, Target(machine=machine)), refused=stored.refused)
    assert {name: getattr(found, name) for name in FIGURES} == {name: getattr(stored, name) for name in FIGURES}


def test_a_program_that_was_refused_is_the_first_finding_without_a_folder_too(ipus: Ipus) -> None:
    with tilestep.profile() as profile, jax.default_device(ipus[0]):
        refused(ipus)
        several(ipus)
    first, *others = profile.findings
    assert first.text.startswith("jit__lambda does not fit, so it never ran: tile ")
    assert "What frees some: " in first.text
    assert others
    assert not any("never ran" in finding.text for finding in others)
    assert profile.as_document()["findings"][0]["text"] == first.text


SUMMED_UP = """
import sys, jax, jax.numpy as jnp, numpy as np, tilestep
step = jax.jit(lambda w, x: w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w))
planned = []
def note(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.endswith("plan/lower.py") and frame.f_code.co_name.startswith("lower"):
        planned.append(frame.f_code.co_name)
sys.setprofile(note)
with tilestep.profile() as profile, jax.default_device(jax.devices("ipu")[0]):
    w = np.ones((64, 8), np.float32)
    for _ in range(6):
        w = step(w, np.ones((16, 64), np.float32))
profile.findings
print(set(planned))  # programs that are edited
planned.clear()
print(profile.summary().splitlines()[0])
print(planned, [name for name in sys.modules if name.startswith(("tilestep.views.page", "tilestep.views.export"))])
"""


def test_a_summary_plans_no_program_again_and_loads_no_page() -> None:
    run = subprocess.run([sys.executable, "-c", SUMMED_UP], capture_output=True, text=True, check=True)
    planned, verdict, after = run.stdout.splitlines()
    assert planned == "{'lower'}"
    assert verdict.startswith("tilestep: fits: jit__lambda")
    assert after == "[] []"


def require_stored_agrees(report: Report, summary: str) -> None:
    """What is read back is a session's summary."""
    profile = stored_profile(report)
    assert profile is not None
    assert profile.summary() == summary
    require_page_agrees(report, report.profile)


@pytest.mark.slow
@pytest.mark.parametrize("stages", [1, 4])
def test_a_popart_session_is_told_alike(stages: int) -> None:
    session = emulated(Chain(ipus=range(stages)), options(accumulation=8) if stages > 1 else one_stage(), calls=5)
    require_stored_agrees(session.report(), session.summary())
