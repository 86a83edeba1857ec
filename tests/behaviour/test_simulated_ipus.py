"""Of IPUs that do the same a part is simulated, as if all were."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.in_turn import attempt, run_python
from tilestep import plan_training
from tilestep.advice.what_if.knobs import setting_of
from tilestep.advice.what_if.outcome import outcome
from tilestep.errors import CheckpointError
from tilestep.figures.reader import open_report
from tilestep.machine import MachineSpec, SyncPattern, load_machine
from tilestep.options import PlanOptions
from tilestep.pjrt.programs.other_machines import MachineBeside, machine_beside
from tilestep.profiling.measure import profile_between
from tilestep.profiling.plugin import initialize
from tilestep.recording.sources import hlo_of, options_of
from tilestep.train import Checkpoints, Pipeline, Replicas, repeat
from tilestep.train.simulated import put_shards
from tilestep.views.page.sections.execution.section import execution

NOT_EQUAL = ("timeline", "assumptions", "history", "sources")  # beside the numbers of programs, which threads compile in any order
Step = Callable[[], Any]


def pipeline(devices: list[Any]) -> Step:
    """Of four stages, with all that may be offloaded and divided."""

    def stage(params: Any, x: Any) -> Any:
        return jnp.tanh(x @ params)

    replicas = len(devices) // 4
    made = Pipeline(
        [stage, stage, stage, lambda params, x: ((x @ params) ** 2).mean()],
        optax.adam(1e-3),
        8,
        devices=devices,
        replicas=replicas,
        reduction="mean",
        outfeed_loss=True,
        strict=False,
        offload_optimizer_state=True,
        shard_optimizer_state=True,
        offload_activations=True,
    )
    state = made.init([np.ones((64, 64), np.float32)] * 4)
    elements = np.zeros((8, replicas, 16, 64), np.float32)

    def step() -> Any:
        nonlocal state
        state, loss = made.step(state, elements)
        return state, loss

    return step


def mesh(devices: list[Any]) -> Step:
    """One program over all IPUs, divided in two ways."""
    over = Mesh(np.array(devices, dtype=object).reshape(-1, 4), ("data", "model"))
    x = jax.device_put(np.ones((8 * len(over.devices), 64), np.float32), NamedSharding(over, PartitionSpec("data")))
    w = jax.device_put(np.ones((64, 64), np.float32), NamedSharding(over, PartitionSpec(None, "model")))
    update = jax.jit(lambda w, x: w - 0.1 * jax.grad(lambda w: (jnp.tanh(x @ w) ** 2).mean())(w))
    total = jax.jit(lambda w: (w * 2).sum())

    def step() -> Any:
        nonlocal w
        w = update(w, x)
        return total(w)

    return step


def loop(devices: list[Any]) -> Step:
    """A loop on replicas."""
    replicas = Replicas(devices=devices)
    w = replicas.place(np.ones((64, 64), np.float32))

    def step() -> Any:
        nonlocal w
        w = repeat(3, lambda w: w + jax.lax.pmean(jnp.tanh(w @ w), replicas.axis), w, replicas=replicas)
        return w

    return step


def profiles(machine: MachineSpec, program: Callable[[list[Any]], Step]) -> list[dict[str, Any]]:
    """What the first and the second step take on a machine."""
    initialize()
    beside = machine_beside(machine, PlanOptions())
    player, found = beside.player(), []
    with beside.running(player), jax.default_device(beside.devices[0]):
        before = player.mark()
        step = program(list(beside.devices))
        for _ in range(2):
            jax.block_until_ready(step())
            after = player.mark()
            found.append(json.loads(profile_between(player.system, before, after, of_jax=lambda _: False).to_json()))
            before = after
    return [without_numbers({name: value for name, value in one.items() if name not in NOT_EQUAL}) for one in found]


def without_numbers(value: Any) -> Any:
    """A document without the numbers of programs, where order counts for nothing."""
    match value:
        case dict():
            return {name: without_numbers(inner) for name, inner in value.items() if name not in ("key", "keys")}
        case list() | tuple():
            return sorted(map(without_numbers, value), key=repr)
        case str():
            return re.sub(r"(pipeline|lambda) \d+", r"\1", value)
        case _:
            return value


@pytest.mark.parametrize(
    ("program", "pattern"),
    [(pipeline, "full"), (pipeline, "replicaAndLadder"), (pipeline, "singlePipeline"), (mesh, "full"), (loop, "full")],
)
def test_a_part_takes_what_the_whole_takes(program: Callable[[list[Any]], Step], pattern: SyncPattern) -> None:
    whole = profiles(load_machine("bow-pod16", sync_pattern=pattern), program)
    assert profiles(load_machine("bow-pod16", sync_pattern=pattern, simulated_ipus=4), program) == whole


@pytest.fixture
def part() -> MachineBeside:
    """16 IPUs, of which four are simulated."""
    initialize()
    return machine_beside(load_machine("bow-pod16", simulated_ipus=4), PlanOptions())


def test_arrays_go_to_the_ipus_that_are_simulated_as_to_all(part: MachineBeside) -> None:
    with part.running(part.player()):
        over = Mesh(np.array(part.devices, dtype=object), ("x",))
        rows, columns = (NamedSharding(over, PartitionSpec(*axes)) for axes in (("x",), (None, "x")))
        there, scalar = put_shards([np.ones((16, 32), np.float32), 1.0], [rows, NamedSharding(over, PartitionSpec())])
        assert scalar.weak_type
        anew = put_shards(there, columns)
        assert (anew.sharding, anew.addressable_shards[1].index) == (columns, (slice(None), slice(2, 4)))
        others = Mesh(np.array([*part.devices[1:4], part.devices[0], *part.devices[4:8]], dtype=object), ("x",))
        with pytest.raises(ValueError, match="cannot go to other IPUs divided as"):
            put_shards(there, NamedSharding(others, PartitionSpec("x")))


def test_a_host_array_goes_to_the_ipus_that_are_simulated(part: MachineBeside) -> None:
    with part.running(part.player()):
        over = NamedSharding(Mesh(np.array(part.devices, dtype=object), ("x",)), PartitionSpec("x"))
        x = jax.device_put(np.arange(32), over)
        assert (x.shape, [shard.device.id for shard in x.addressable_shards]) == ((32,), [0, 1, 2, 3])
        total = jax.jit(lambda x: x.sum(), out_shardings=NamedSharding(over.mesh, PartitionSpec()))(x)
        assert total.is_fully_replicated


@pytest.mark.parametrize("ipus", [(5,), (2, 3, 4, 5), (0, 1, 4)])
def test_a_program_whose_ipus_do_not_do_the_same_is_refused(part: MachineBeside, ipus: tuple[int, ...]) -> None:
    with part.running(part.player()):
        over = NamedSharding(Mesh(np.array([part.devices[ipu] for ipu in ipus], dtype=object), ("x",)), PartitionSpec())
        wanted = rf"a program is for the IPUs {re.escape(str(list(ipus)))}, but 4 IPUs are simulated .*simulate the IPUs of a whole replica"
        with pytest.raises(jax.errors.JaxRuntimeError, match=wanted):
            jax.jit(lambda: jnp.ones(3), out_shardings=over)()


def test_a_replica_that_is_not_simulated_as_a_whole_is_refused(part: MachineBeside) -> None:
    stages = [lambda params, x: x @ params] * 8
    with (
        part.running(part.player()),
        pytest.raises(ValueError, match=r"stage 4 is on device .*not simulated: a replica has 8 IPUs, so that TILESTEP_SIMULATED_IPUS"),
    ):
        Pipeline(stages, None, 8, devices=part.devices, replicas=2)


ON_ALL = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
over = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), PartitionSpec("x"))
x = jax.device_put(np.ones((64, 64), np.float32), over)
step = jax.jit(lambda x: x - 0.1 * x.mean(), donate_argnums=0)
for _ in range(3):
    x = step(x)
x.block_until_ready()
"""


def test_values_need_all_ipus() -> None:
    done = attempt(ON_ALL, JAX_PLATFORMS="ipu", TILESTEP_MACHINE="bow-pod16", TILESTEP_SIMULATED_IPUS="4")
    assert "computes no values, because not all of its 16 IPUs are simulated (simulated_ipus is 4): run it dry" in done.stderr


def test_a_recording_of_a_part_is_played_again_as_of_the_whole(tmp_path: Path) -> None:
    played: list[tuple[int, int, int]] = []
    for name, options in (("whole", ()), ("part", ("--simulated-ipus", "4"))):
        done = run_python(
            "-m", "tilestep", "run", "--machine", "bow-pod16", "--dry-run", *options, "--report", str(tmp_path / name), "-c", ON_ALL
        )
        assert done.returncode == 0, done.stderr
        assert ("IPU k does what IPU k modulo 4 does" in done.stderr) == (name == "part")
        report = open_report(tmp_path / name)
        shown = execution(report)
        assert shown is not None
        assert shown.json["not_simulated"] == (12 if name == "part" else 0)
        faster = [setting_of("links=x2")]
        turned = outcome(report.history, hlo_of(report.tables), faster, options=options_of(report.tables))
        other = outcome(
            report.history, hlo_of(report.tables), [], options=options_of(report.tables), machine=_larger(report.history.machine)
        )
        played.append((turned.cycles, turned.turned_cycles, other.turned_cycles))
    assert played[0] == played[1]
    (tmp_path / "wide.toml").write_text('inherits = "bow-pod16"\nipus_per_machine = 8\n')
    done = run_python("-m", "tilestep", "report", "what-if", str(tmp_path / "part"), "--machine", str(tmp_path / "wide.toml"))
    assert (done.returncode, "the recording has 4 simulated IPUs, which do not stand for those of wide" in done.stderr) == (2, True), (
        done.stderr
    )
    done = run_python("-m", "tilestep", "report", "what-if", str(tmp_path / "part"), "--machine", "c600")
    assert "machine c600 has 1 IPU, and the recording is of 16" in done.stderr


def _larger(recorded: MachineSpec) -> MachineSpec:
    return load_machine("bow-pod64", simulated_ipus=recorded.simulated_ipus)


@pytest.mark.parametrize("first", [0, 1])
def test_a_program_that_other_parts_do_not_run_is_named(part: MachineBeside, first: int) -> None:
    with part.running(player := part.player()):
        before = player.mark()
        for ipus in (part.devices[:1], part.devices)[first:]:
            over = NamedSharding(Mesh(np.array(ipus, dtype=object), ("x",)), PartitionSpec())
            jax.block_until_ready(jax.jit(lambda: jnp.ones(3), out_shardings=over)())
        profile = profile_between(player.system, before, player.mark(), of_jax=lambda _: False)
    assert any("do the same ran jit__lambda: what programs take" in sentence for sentence in profile.assumptions) == (first == 0)


def test_an_array_that_is_divided_anew_is_said_to_differ(part: MachineBeside) -> None:
    with part.running(player := part.player()):
        before = player.mark()
        over = Mesh(np.array(part.devices, dtype=object).reshape(4, 4), ("data", "model"))
        x = jax.device_put(np.ones((16, 16), np.float32), NamedSharding(over, PartitionSpec("data")))
        jax.block_until_ready(jax.device_put(x, NamedSharding(over, PartitionSpec("model"))))
        profile = profile_between(player.system, before, player.mark(), of_jax=lambda _: False)
    assert any("else jax.device_put divides an array anew by copies" in sentence for sentence in profile.assumptions)


def test_a_plan_for_ipus_on_a_ladder_of_cards_is_played() -> None:
    plans = plan_training(
        layers=[lambda params, x: ((x @ params) ** 2).mean()],
        params=[jax.ShapeDtypeStruct((8, 8), jnp.float32)],
        optimizer=optax.sgd(0.1),
        microbatch=(jax.ShapeDtypeStruct((1, 8), jnp.float32),),
        machine=load_machine("c600", num_ipus=4, sync_pattern="replicaAndLadder"),
        global_batch=8,
        microbatch_sizes=[2],
        replays=1,
    )
    assert plans.best is not None


@pytest.mark.parametrize("ipus", [16, 4])
def test_a_checkpoint_that_nobody_has_all_of_is_refused(part: MachineBeside, tmp_path: Path, ipus: int) -> None:
    with part.running(part.player()):
        replicas = Replicas(devices=part.devices[:ipus])
        w = replicas.place({"w": np.ones((4, 4), np.float32)})
        for save in (
            lambda: Checkpoints(tmp_path).save(1, w),
            lambda: repeat(2, lambda w: w, w, replicas=replicas, checkpoints=Checkpoints(tmp_path, seconds=1)),
        ):
            with pytest.raises(CheckpointError, match=r"state\['w'\] is on a machine of which a part is simulated"):
                save()


def test_replicas_may_be_on_the_part_that_is_simulated_alone(part: MachineBeside) -> None:
    with part.running(part.player()):
        replicas = Replicas(devices=part.devices[:4])
        assert repeat(2, lambda w: jax.lax.pmean(w, replicas.axis), replicas.place(jnp.ones(4)), replicas=replicas).shape == (4,)
        with pytest.raises(ValueError, match=r"none is simulated \(TILESTEP_SIMULATED_IPUS\)"):
            Replicas(devices=part.devices[4:8])
