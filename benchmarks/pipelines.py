"""What does a pipeline of four unlike stages take, against one jitted program on one device, SpectraX, and torch.distributed.pipelining?

    benchmarks/pipelines.py                              a table of medians, and of ratios within a round
    benchmarks/pipelines.py --only mid --rounds 5        one model, fewer rounds
    benchmarks/pipelines.py --json benchmarks/results/pipelines.json       a record; what is in it of other models stays
    benchmarks/pipelines.py --rounds 0 --peaks --json ...                  peak memory alone

A small transformer (embedding and perceptron, two blocks, a head with the loss), 16 microbatches an update, Adam, in the schedule 1F1B:

    mid     2,048 words, width 256, 64 tokens, 8 rows a microbatch
    tiny    64 words, width 16, 8 tokens, 2 rows: starting programs is what takes the time

    one device    one program of JAX: gradients of a scan over microbatches, and the update
    stages        `Pipeline(program="stages")` on four CPU devices: a program for each task; products of matrices are kept for backward,
                  and what is computed of them element by element is computed again
    kept          the same with all kept that backward needs, as one device and SpectraX do
    recomputed    the same with nothing kept but a stage's arguments
    chosen        `Pipeline(program="auto")`, otherwise as stages, after it has chosen
    spectrax      SpectraX's Std1F1B on the same devices, if spectrax-lib is installed: its gradients, then Adam on each stage's device
    torch N       torch.distributed.pipelining's Schedule1F1B over gloo in N processes, one thread each, if torch is installed

All sides take turns in each round, in changing order. Their gradients in the first update, which Adam's first moments are, are compared
with those of one device. Told is also what an update takes the host until it is free, by task: wall time, in which the processor may be
doing the stages' work instead, and the starting thread's own time on a processor. `--peaks` tells the peak memory of JAX's sides, each in a
process of its own. Wall time is reported, never judged.
"""

from __future__ import annotations

import abc
import argparse
import contextlib
import importlib.util
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.commit import commit
from benchmarks.dispatch import summary
from tilestep.train import Pipeline

STAGES, MICROBATCHES = 4, 16
RATE, BETAS, EPSILON = 1e-3, (0.9, 0.999), 1e-8  # of Adam; torch's and optax's own
TORCH_PROCESSES = (2, 4)
PEERS = {"spectrax": "spectrax-lib", "torch": "torch"}
BY_TASK = ("stages", "kept", "recomputed", "spectrax")  # the sides that start a program for each task
ROUNDS = 15
WARM_UP = 5  # updates: after four the pipeline has chosen
TIMEOUT_S = 900


@dataclass(frozen=True, kw_only=True)
class Size:
    """A model's."""

    words: int
    width: int
    tokens: int
    rows: int
    heads: int


SIZES = {
    "mid": Size(words=2048, width=256, tokens=64, rows=8, heads=4),
    "tiny": Size(words=64, width=16, tokens=8, rows=2, heads=2),
}


def parameters(size: Size) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (rng.normal(size=(rows, columns)) / rows**0.5).astype(np.float32)

    def norm() -> dict[str, Any]:
        return {"scale": np.ones(size.width, np.float32), "shift": np.zeros(size.width, np.float32)}

    def perceptron() -> dict[str, Any]:
        wide = 4 * size.width
        return {
            "norm": norm(),
            "up": matrix(size.width, wide),
            "up_bias": np.zeros(wide, np.float32),
            "down": matrix(wide, size.width),
            "down_bias": np.zeros(size.width, np.float32),
        }

    def block() -> dict[str, Any]:
        return {"norm": norm(), "qkv": matrix(size.width, 3 * size.width), "out": matrix(size.width, size.width), "mlp": perceptron()}

    table = 0.1 * rng.normal(size=(size.words, size.width))
    embedding = {"table": table.astype(np.float32), "place": 0.1 * matrix(size.tokens, size.width), "mlp": perceptron()}
    return [embedding, block(), block(), {"norm": norm(), "out": matrix(size.width, size.words)}]


def batches(size: Size) -> tuple[np.ndarray, np.ndarray]:
    tokens = np.random.default_rng(1).integers(0, size.words, (MICROBATCHES, size.rows, size.tokens)).astype(np.int32)
    return tokens, np.roll(tokens, -1, -1)


def normed(p: Any, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["shift"]


def perceptron(p: Any, x: Any) -> Any:
    return x + jax.nn.gelu(normed(p["norm"], x) @ p["up"] + p["up_bias"]) @ p["down"] + p["down_bias"]


def stages(size: Size) -> list[Any]:
    def embed(p: Any, tokens: Any, labels: Any) -> Any:
        return perceptron(p["mlp"], p["table"][tokens] + p["place"]), labels

    def block(p: Any, x: Any, labels: Any) -> Any:
        rows, tokens, width = x.shape
        parts = jnp.split(normed(p["norm"], x) @ p["qkv"], 3, -1)
        q, k, v = (part.reshape(rows, tokens, size.heads, -1).transpose(0, 2, 1, 3) for part in parts)
        scores = q @ k.swapaxes(-1, -2) / np.float32((width // size.heads) ** 0.5)
        scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -1e9)
        mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        return perceptron(p["mlp"], x + mixed @ p["out"]), labels

    def head(p: Any, x: Any, labels: Any) -> Any:
        scores = jax.nn.log_softmax(normed(p["norm"], x) @ p["out"])
        return -jnp.take_along_axis(scores, labels[..., None], -1).mean()

    return [embed, block, block, head]


def adam() -> Any:
    return optax.adam(RATE, *BETAS, eps=EPSILON)


class Side(abc.ABC):
    """One way to train: `step` does an update and waits for it.

    Attributes: host_wall_s: what the last one took until the host was free. host_cpu_s: of that, this thread's time on a processor.
    """

    host_wall_s = host_cpu_s = 0.0

    @abc.abstractmethod
    def step(self) -> None:
        """One update."""

    @abc.abstractmethod
    def moments(self) -> list[np.ndarray]:
        """Adam's first ones: leaves, in JAX's order. After one update they are the gradients, times a number."""

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Around what the host does until it is free."""
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        yield
        self.host_wall_s, self.host_cpu_s = time.perf_counter() - wall_s, time.thread_time() - cpu_s

    def close(self) -> None:  # noqa: B027  # most have none
        """Ends processes, if there are any."""


class OneDevice(Side):
    """One jitted program."""

    def __init__(self, size: Size) -> None:
        functions, optimizer = stages(size), adam()
        self._params = jax.device_put(parameters(size), jax.devices()[0])
        self._state = jax.jit(optimizer.init)(self._params)
        self._data = batches(size)

        def loss(params: Any, *args: Any) -> Any:
            for function, own in zip(functions[:-1], params[:-1], strict=True):
                args = function(own, *args)
            return functions[-1](params[-1], *args)

        def update(params: Any, state: Any, data: Any) -> Any:
            def step(total: Any, element: Any) -> Any:
                value, gradients = jax.value_and_grad(loss)(params, *element)
                return jax.tree.map(jnp.add, total, gradients), value

            total, losses = jax.lax.scan(step, jax.tree.map(jnp.zeros_like, params), data)
            changes, state = optimizer.update(jax.tree.map(lambda g: g / MICROBATCHES, total), state, params)
            return optax.apply_updates(params, changes), state, losses

        self._update = jax.jit(update, donate_argnums=(0, 1))

    def step(self) -> None:
        with self.starting():
            self._params, self._state, losses = self._update(self._params, self._state, self._data)
        jax.block_until_ready((self._params, self._state, losses))

    def moments(self) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(self._state[0].mu)]


class Stages(Side):
    """`Pipeline`."""

    def __init__(self, size: Size, program: Any, recompute: Any) -> None:
        self._pipeline = Pipeline(
            stages(size), adam(), MICROBATCHES, pipeline_schedule="interleaved", reduction="mean", recompute=recompute, program=program
        )
        self._state, self._data = self._pipeline.init(parameters(size)), batches(size)

    def step(self) -> None:
        with self.starting():
            self._state, losses = self._pipeline.step(self._state, self._data)
        jax.block_until_ready((self._state, losses))

    def moments(self) -> list[np.ndarray]:
        states: Any = self._state.optimizer_state
        return [np.asarray(leaf) for own in states for leaf in jax.tree.leaves(own[0].mu)]


class SpectraX(Side):
    """SpectraX's gradients of the mean loss, and the update of each stage by itself. Labels are used where the last stage is."""

    def __init__(self, size: Size) -> None:
        import spectrax
        from spectrax.runtime.mpmd import sxjit, sxstage_iter, sxvalue_and_grad
        from spectrax.runtime.mpmd.runtime import resolve_mpmd_mesh

        logging.disable(logging.INFO)  # the first updates are told at length
        mesh = spectrax.create_mesh(axis_dims=(STAGES, 1, 1, 1, 1, 1), mpmd_axis="pp")
        functions, optimizer = stages(size), adam()

        def loss(params: Any, tokens: Any, labels: Any) -> Any:
            x = tokens
            for function, own in zip(functions[:-1], params[:-1], strict=True):
                x = sxstage_iter(function(own, x, labels)[0])
            return functions[-1](params[-1], x, labels)

        scheduled = sxjit(loss, mesh=mesh, schedule=spectrax.Std1F1B(microbatches=MICROBATCHES), batch_argnums=(1, 2))
        self._gradients = sxvalue_and_grad(scheduled)
        self._places = [resolve_mpmd_mesh(mesh).sub_sharding(stage) for stage in range(STAGES)]
        self._params = [jax.device_put(own, place) for own, place in zip(parameters(size), self._places, strict=True)]
        self._states = [jax.jit(optimizer.init)(own) for own in self._params]
        self._data = [leaf.reshape(-1, size.tokens) for leaf in batches(size)]

        def update(params: Any, state: Any, gradients: Any) -> Any:
            changes, state = optimizer.update(gradients, state, params)
            return optax.apply_updates(params, changes), state

        self._update = jax.jit(update, donate_argnums=(0, 1))

    def step(self) -> None:
        with self.starting():
            loss, (gradients,) = self._gradients(self._params, *self._data)
            there = [jax.device_put(own, place) for own, place in zip(gradients, self._places, strict=True)]
            new = [self._update(*own) for own in zip(self._params, self._states, there, strict=True)]
            self._params, self._states = [own for own, _ in new], [state for _, state in new]
        jax.block_until_ready((self._params, self._states, loss))

    def moments(self) -> list[np.ndarray]:
        return [np.asarray(leaf) for state in self._states for leaf in jax.tree.leaves(state[0].mu)]


class Torch(Side):
    """Processes that run this file, each with some stages; they take a step for each line that they read."""

    def __init__(self, name: str, count: int) -> None:
        with socket.create_server(("localhost", 0)) as server:
            port = server.getsockname()[1]
        environ = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"} | {"OMP_NUM_THREADS": "1"}
        own = [sys.executable, __file__, "--only", name, "--torch", str(count), str(port)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environ}
        self._processes = [subprocess.Popen([*own, str(rank)], **pipes) for rank in range(count)]
        self._said("ready")

    def _said(self, order: str) -> list[str]:
        for process in self._processes:
            assert process.stdin is not None  # it is a pipe
            process.stdin.write(order + "\n")
            process.stdin.flush()
        answers = [process.stdout.readline().strip() if process.stdout is not None else "" for process in self._processes]
        if not all(answers):
            raise SystemExit("a process of torch has ended")
        return answers

    def step(self) -> None:
        self._said("step")

    def moments(self) -> list[np.ndarray]:
        return [np.asarray(leaf, np.float32) for answer in self._said("moments") for leaf in json.loads(answer)]

    def close(self) -> None:
        for process in self._processes:
            process.kill()


def torch_stages(size: Size, first: int, last: int) -> Any:
    """The stages from `first` to `last` as a module."""
    import torch
    from torch import nn
    from torch.nn import functional

    def of(tree: Any) -> nn.Module:
        module = nn.Module()
        for key in sorted(tree):
            value = tree[key]
            if isinstance(value, dict):
                module.add_module(key, of(value))
            else:
                module.register_parameter(key, nn.Parameter(torch.tensor(value)))
        return module

    def norm(p: Any, x: Any) -> Any:
        return functional.layer_norm(x, (size.width,), p.scale, p.shift)

    def mlp(p: Any, x: Any) -> Any:
        return x + functional.gelu(norm(p.norm, x) @ p.up + p.up_bias, approximate="tanh") @ p.down + p.down_bias

    def block(p: Any, x: Any) -> Any:
        rows, tokens, width = x.shape
        q, k, v = ((part.reshape(rows, tokens, size.heads, -1).transpose(1, 2)) for part in (norm(p.norm, x) @ p.qkv).split(width, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mlp(p.mlp, x + mixed.transpose(1, 2).reshape(x.shape) @ p.out)

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = nn.ModuleList(of(tree) for tree in parameters(size)[first:last])

        def forward(self, x: Any) -> Any:
            for number, p in enumerate(self.own, first):
                if number == 0:
                    x = mlp(p.mlp, functional.embedding(x, p.table) + p.place)
                else:
                    x = block(p, x) if number < STAGES - 1 else norm(p.norm, x) @ p.out
            return x

    return Part()


def in_order(module: Any) -> list[Any]:
    """A module's parameters as JAX orders a tree's leaves."""
    named = {**dict(module.named_children()), **dict(module.named_parameters(recurse=False))}
    return [leaf for _, part in sorted(named.items()) for leaf in (in_order(part) if hasattr(part, "named_children") else [part])]


def in_torch(size: Size, count: int, port: int, rank: int) -> None:
    """One of the processes."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    from torch.nn import functional

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://localhost:{port}", rank=rank, world_size=count)
    each = STAGES // count
    module = torch_stages(size, rank * each, (rank + 1) * each)
    tokens, labels = (torch.tensor(leaf.reshape(-1, size.tokens)) for leaf in batches(size))
    optimizer = torch.optim.Adam(module.parameters(), RATE, betas=BETAS, eps=EPSILON)

    def loss(scores: Any, labels: Any) -> Any:
        return functional.cross_entropy(scores.flatten(0, 1), labels.flatten().long())

    stage = PipelineStage(module, rank, count, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=loss, scale_grads=True)
    for order in sys.stdin:
        answer = order.strip()
        if answer == "moments":
            answer = json.dumps([optimizer.state[leaf]["exp_avg"].tolist() for own in module.own for leaf in in_order(own)])
        elif answer == "step":
            optimizer.zero_grad()
            if rank == 0:
                schedule.step(tokens)
            elif rank == count - 1:
                schedule.step(target=labels, losses=[])
            else:
                schedule.step()
            optimizer.step()
            dist.barrier()
        print(answer, flush=True)


def sides(name: str, wanted: Sequence[str] | None) -> dict[str, Callable[[], Side]]:
    size = SIZES[name]
    found: dict[str, Callable[[], Side]] = {
        "one device": lambda: OneDevice(size),
        "stages": lambda: Stages(size, "stages", jax.checkpoint_policies.dots_with_no_batch_dims_saveable),
        "kept": lambda: Stages(size, "stages", None),
        "recomputed": lambda: Stages(size, "stages", "full"),
        "chosen": lambda: Stages(size, "auto", jax.checkpoint_policies.dots_with_no_batch_dims_saveable),
    }
    if importlib.util.find_spec("spectrax") is not None:
        found["spectrax"] = lambda: SpectraX(size)
    if importlib.util.find_spec("torch") is not None:
        found |= {f"torch {count}": lambda count=count: Torch(name, count) for count in TORCH_PROCESSES}
    return {key: make for key, make in found.items() if wanted is None or key in wanted or key == "one device"}


def difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The greatest, relative to the greatest element of its array."""
    return max(float(np.abs(a - b).max() / (np.abs(b).max() + 1e-12)) for a, b in zip(found, expected, strict=True))


def measure(name: str, rounds: int, wanted: Sequence[str] | None) -> dict[str, Any]:
    made = {key: make() for key, make in sides(name, wanted).items()}
    try:
        for side in made.values():
            side.step()
        after_one = {key: difference(side.moments(), made["one device"].moments()) for key, side in made.items()}
        for _ in range(WARM_UP - 1):
            for side in made.values():
                side.step()
        wall_s: dict[str, list[float]] = {key: [] for key in made}
        host_wall_s: dict[str, list[float]] = {key: [] for key in made}
        host_cpu_s: dict[str, list[float]] = {key: [] for key in made}
        for turn in range(rounds):
            order = list(made)
            for key in order[turn % len(order) :] + order[: turn % len(order)]:
                begin = time.perf_counter()
                made[key].step()
                wall_s[key].append(time.perf_counter() - begin)
                host_wall_s[key].append(made[key].host_wall_s)
                host_cpu_s[key].append(made[key].host_cpu_s)
    finally:
        for side in made.values():
            side.close()
    tasks = MICROBATCHES * (2 * STAGES - 1) + STAGES
    ratios = {key: [own / base for own, base in zip(times, wall_s["one device"], strict=True)] for key, times in wall_s.items()}
    return {
        "name": name,
        "wall_s": {key: summary(times) for key, times in wall_s.items()},
        "ratio_to_one_device": {key: summary(values) for key, values in ratios.items() if key != "one device"},
        "host_wall_s_per_task": {key: told(host_wall_s[key], tasks) for key in BY_TASK if key in made},
        "host_cpu_s_per_task": {key: told(host_cpu_s[key], tasks) for key in BY_TASK if key in made},
        "greatest_relative_difference_of_gradients": {key: float(f"{value:.2g}") for key, value in after_one.items()},
    }


def told(times: Sequence[float], tasks: int) -> dict[str, float]:
    """Summary by task, and the least, which has the least of what else the processors do."""
    each = [value / tasks for value in times]
    return summary(each) | {"least": float(f"{min(each):.4g}")}


def alone(name: str, which: str) -> None:
    """Peak memory of this process with one side, JAX itself and all."""
    side = sides(name, [which])[which]()
    for _ in range(WARM_UP):
        side.step()
    # Not getrusage's, which a process takes over from the one that has started it.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    print(json.dumps({"peak_bytes": 1024 * int(peak.split()[1])}))


def peaks(name: str, which: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key in which:
        own = [sys.executable, __file__, "--only", name, "--alone", key]
        done = subprocess.run(own, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
        found[key] = json.loads(done.stdout.splitlines()[-1])["peak_bytes"]
    return found


def show(found: dict[str, Any]) -> None:
    print(f"{found['name']}:")
    for key, own in found.get("wall_s", {}).items():
        ratio = found["ratio_to_one_device"].get(key, {"median": 1.0})["median"]
        apart = found["greatest_relative_difference_of_gradients"][key]
        print(f"  {key:12} {own['median'] * 1e3:9.2f} ms an update, {ratio:6.2f} x one device; gradients differ by {apart:.1e}")
    for key, own in found.get("host_wall_s_per_task", {}).items():
        cpu = found["host_cpu_s_per_task"][key]
        print(
            f"  {key:12} {own['median'] * 1e6:9.1f} µs of the host a task, at least {own['least'] * 1e6:.1f}; "
            f"{cpu['median'] * 1e6:.1f} µs on a processor, at least {cpu['least'] * 1e6:.1f}"
        )
    for key, size in found.get("peak_bytes", {}).items():
        print(f"  {key:12} {size / 2**20:9.1f} MiB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(SIZES), default=list(SIZES))
    parser.add_argument("--sides", nargs="+", metavar="SIDE", help="beside 'one device'")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="at least 2, or 0: none")
    parser.add_argument("--peaks", action="store_true", help="peak memory too, of JAX's sides, each in a process of its own")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    parser.add_argument("--alone", metavar="SIDE", help=argparse.SUPPRESS)
    parser.add_argument("--torch", nargs=3, type=int, metavar=("COUNT", "PORT", "RANK"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch:
        in_torch(SIZES[options.only[0]], *options.torch)
        return
    jax.config.update("jax_num_cpu_devices", STAGES)
    if options.alone:
        alone(options.only[0], options.alone)
        return
    recorded: dict[str, Any] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {"answers": []}
    answers: dict[str, dict[str, Any]] = {own["name"]: own for own in recorded["answers"]}
    for name in options.only:
        if options.rounds:
            load = round(os.getloadavg()[0], 2)
            found = measure(name, max(2, options.rounds), options.sides)
            found |= {"commit": commit(), "host": {"cpus": os.cpu_count(), "load": load, "load_after": round(os.getloadavg()[0], 2)}}
            answers[name] = {key: value for key, value in answers.get(name, {}).items() if key == "peak_bytes"} | found
        if options.peaks:
            answers.setdefault(name, {"name": name})
            answers[name]["peak_bytes"] = peaks(name, [key for key in sides(name, None) if not key.startswith("torch")])
        show(answers[name])
    if options.json:
        packages = ["jax", "jaxlib", "numpy", "optax", "tilestep"]
        packages += [package for module, package in PEERS.items() if importlib.util.find_spec(module) is not None]
        record = {
            "question": (__doc__ or "").splitlines()[0],
            "versions": {name: version(name) for name in packages},
            "answers": [answers[name] for name in SIZES if name in answers],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
