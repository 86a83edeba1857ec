"""How fast does an InfeedQueue feed a device, against a plain loop of slices and puts, and against other libraries' loaders, on CPU?

    benchmarks/feeds.py                          tables of medians: batches per second, and their ratio
    benchmarks/feeds.py --only 0.4 --json benchmarks/results/feeds.json

Batches of 0.4 MB and 19 MB lie one after the other in one NumPy array. Questions for each size:

    throughput   batches put on the device by an InfeedQueue, in chunks, against `jax.device_put(data[k])` in a Python loop
    loop         steps that add up a batch: `tilestep.train.repeat` with an InfeedQueue, against a Python loop over a jitted donated
                 step that gets its batches from grain (threads), PyTorch's DataLoader (none, and two workers) or tf.data (prefetch;
                 from the Python generator that the InfeedQueue gets, and from the array, of which it makes a copy beforehand)
    loop, mapped  the same with batches of a file, as `numpy.load(..., mmap_mode="r")` gives them
    loop, frozen  the same with batches of an array that `tilestep.train.frozen` has copied beforehand

Like is to be compared with like. A dataset may write to its arrays again, so whoever takes batches as they come copies each: the
InfeedQueue, and the loop, as NumPy's allocator starts large arrays 16 bytes after a multiple of 64, from where on a CPU device can read an
array where it lies. `tf.data.Dataset.from_tensor_slices(data)` copies all of them before the clock starts, to memory that is aligned, and
what is written later it does not see: that is `InfeedQueue(frozen(data))`, and stands beside it in "loop, frozen". A file that is mapped
for reading starts at a multiple of 64, and nobody copies it.

Libraries that are not installed are left out, which stderr says. The sides take turns in one process, so that whatever else the machine
does falls on all. Wall time is reported, never judged.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import numpy as np

from benchmarks.commit import commit
from benchmarks.dispatch import summary
from tilestep.train import InfeedQueue, frozen, repeat

Turn = Callable[[], object]
Loader = Callable[[np.ndarray], Iterator[Any]]


@dataclass(frozen=True, kw_only=True)
class Size:
    """Batches of one shape. A turn moves `batches` of them, in chunks of `chunk`."""

    name: str
    shape: tuple[int, ...]
    distinct: int
    batches: int
    chunk: int
    turns: int

    def data(self) -> np.ndarray:
        """As NumPy's allocator lays out large arrays, whatever their size."""
        size = self.distinct * int(np.prod(self.shape))
        memory = np.empty(size + 16, np.float32)
        start = (-memory.ctypes.data % 64 + 16) // 4 % 16
        rows = memory[start : start + size]
        rows[:] = np.arange(size, dtype=np.float32) % 1000
        return rows.reshape(self.distinct, *self.shape)


def mapped(data: np.ndarray, folder: Path) -> np.ndarray:
    """The same from a file, read once so that the operating system has it in memory."""
    file = folder / f"{data.nbytes}.npy"
    np.save(file, data)
    found = np.load(file, mmap_mode="r")
    assert np.array_equal(found, data)
    return found


SIZES = (
    Size(name="0.4 MB", shape=(128, 784), distinct=128, batches=1024, chunk=16, turns=15),
    Size(name="19 MB", shape=(32, 3, 224, 224), distinct=8, batches=64, chunk=1, turns=15),
)


def endless(data: np.ndarray) -> Iterator[np.ndarray]:
    """One batch after the other, as views of the array."""
    return (data[k] for k in itertools.cycle(range(len(data))))


def raw(size: Size, data: np.ndarray) -> Turn:
    def turn() -> object:
        batch = None
        for k in range(size.batches):
            batch = jax.device_put(data[k % len(data)])
        return jax.block_until_ready(batch)

    return turn


def queued(size: Size, data: np.ndarray) -> Turn:
    infeed = InfeedQueue(functools.partial(endless, data), sharding=jax.devices()[0])
    infeed.reserve("a benchmark")
    infeed.begin(chunk_steps=size.chunk, steps=size.chunk, carry_sharding=None)

    def turn() -> object:
        for _ in range(size.batches // size.chunk):
            jax.block_until_ready(infeed.take().on_device)
        return None

    return turn


def step(total: Any, batch: Any) -> Any:
    return total + batch.sum()


def repeated(size: Size, data: np.ndarray) -> Turn:
    infeed = InfeedQueue(functools.partial(endless, data))

    def turn() -> object:
        return jax.block_until_ready(repeat(size.batches, step, np.float32(0), infeed, chunk=size.chunk))

    return turn


def looped(size: Size, data: np.ndarray, *, loader: Loader) -> Turn:
    batches, jitted = loader(data), jax.jit(step, donate_argnums=0)

    def turn() -> object:
        total = jax.device_put(np.float32(0))
        for batch in itertools.islice(batches, size.batches):
            total = jitted(total, np.asarray(batch))
        return jax.block_until_ready(total)

    return turn


def from_grain(data: np.ndarray) -> Iterator[Any]:
    import grain

    options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=4)
    return iter(grain.MapDataset.source(data).repeat().to_iter_dataset(options))


def from_torch(data: np.ndarray, *, workers: int) -> Iterator[Any]:
    import torch

    class Batches(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return len(data)

        def __getitem__(self, index: int) -> Any:
            return torch.from_numpy(data[index])

    options = {"prefetch_factor": 4, "persistent_workers": True} if workers else {}
    loader = torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=workers, **options)
    return itertools.chain.from_iterable(itertools.repeat(loader))


def from_tensorflow(data: np.ndarray) -> Iterator[Any]:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(data).repeat().prefetch(4).as_numpy_iterator()


def from_tensorflow_generator(data: np.ndarray) -> Iterator[Any]:
    import tensorflow as tf

    kind = tf.TensorSpec(data.shape[1:], tf.float32)
    return tf.data.Dataset.from_generator(functools.partial(endless, data), output_signature=kind).prefetch(4).as_numpy_iterator()


LOADERS: Mapping[str, tuple[str, Loader]] = {  # name -> (what must be installed, what gives its batches)
    "grain": ("grain", from_grain),
    "torch, no workers": ("torch", functools.partial(from_torch, workers=0)),
    "torch, 2 workers": ("torch", functools.partial(from_torch, workers=2)),
    "tf.data, copied before": ("tensorflow", from_tensorflow),
    "tf.data, generator": ("tensorflow", from_tensorflow_generator),
}


def answer(turns: Mapping[str, Turn], size: Size, repetitions: int) -> dict[str, tuple[float, ...]]:
    """Seconds per batch of each side, turn by turn."""
    for turn in turns.values():
        turn()
    wall_s: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(repetitions):
        for name in list(turns) if number % 2 else reversed(list(turns)):
            begin = time.perf_counter()
            turns[name]()
            wall_s[name].append((time.perf_counter() - begin) / size.batches)
    return {name: tuple(values) for name, values in wall_s.items()}


def table(title: str, wall_s: Mapping[str, Sequence[float]], megabytes: float) -> str:
    medians = {name: statistics.median(values) for name, values in wall_s.items()}
    ours = medians["InfeedQueue"]
    lines = [f"{title:26} {'batches/s':>10} {'GB/s':>7} {'InfeedQueue is faster by':>25}"]
    lines += [f"  {name:24} {1 / value:10.0f} {megabytes / value / 1e3:7.2f} {value / ours:25.2f}" for name, value in medians.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORDS", help="sizes whose name contains one of these")
    parser.add_argument("--turns", type=int, metavar="N", help="of each side, in place of the size's own number (at least 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    options = parser.parse_args()
    packages = {package for package, _ in LOADERS.values()}
    missing = sorted(package for package in packages if importlib.util.find_spec(package) is None)
    if missing:
        print(f"not installed, so left out: {', '.join(missing)}", file=sys.stderr)
    loaders = {name: loader for name, (package, loader) in LOADERS.items() if package not in missing}
    names = ["jax", "jaxlib", "numpy", "tilestep", *sorted(packages - {*missing, "tensorflow"})]
    versions = {name: version(name) for name in names}
    if "tensorflow" not in missing:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        with contextlib.suppress(ImportError):
            import tensorflow as tf

            versions["tensorflow"] = tf.__version__
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")
    warnings.filterwarnings("ignore", r"os.fork\(\) was called")  # PyTorch's workers, which run no JAX
    answers: list[dict[str, Any]] = []
    folder = tempfile.TemporaryDirectory()
    for size in SIZES:
        if options.only and not any(words in size.name for words in options.only):
            continue
        data = size.data()
        questions: dict[str, dict[str, Turn]] = {"throughput": {"InfeedQueue": queued(size, data), "slice + device_put": raw(size, data)}}
        arrays = {"loop": data, "loop, mapped": mapped(data, Path(folder.name)), "loop, frozen": frozen(data)}
        for question, batches in arrays.items():
            loops = {name: looped(size, batches, loader=loader) for name, loader in loaders.items()}
            questions[question] = {"InfeedQueue": repeated(size, batches), **loops}
        for question, turns in questions.items():
            wall_s = answer(turns, size, max(2, options.turns or size.turns))
            print(table(f"{size.name}, {question}", wall_s, data[0].nbytes / 1e6), flush=True)
            medians = {name: statistics.median(values) for name, values in wall_s.items()}
            answers.append(
                {
                    "name": f"{size.name}, {question}",
                    "batch_bytes": data[0].nbytes,
                    "wall_s": {name: summary(values) for name, values in wall_s.items()},
                    "ratio": {name: round(value / medians["InfeedQueue"], 3) for name, value in medians.items()},
                }
            )
    if options.json:
        record = {
            "question": (__doc__ or "").splitlines()[0],
            "commit": commit(),
            "host": {"cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 2)},
            "versions": versions,
            "answers": answers,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
