"""Do public TensorFlow programs compute on emulated IPUs what stock TensorFlow computes?

    benchmarks/tensorflow_values.py CHECKOUTS    compares the programs below, and puts the result into the judge's record

Each program runs twice: by `tilestep run --tensorflow`, and on stock TensorFlow with the `tensorflow.python.ipu` that is below, which has
no code of tilestep. Seeds, data and initial values are equal. Both stop after the first `FIRST` executions: later
losses of thousands of steps differ by the order in which sums are rounded.
"""

from __future__ import annotations

import argparse
import enum
import json
import os
import random
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest.mock import MagicMock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

from benchmarks import tensorflow_judge, tensorflow_stand_ins

FIRST: Final = 6  # executions whose values are compared
BOUND: Final = 1e-5  # of the relative difference of a loss
PROGRAMS: Final = (  # each with arguments that make its executions short
    ("feature_examples/tensorflow/pipelining/pipelining.py", "--repeat-count 3"),
    ("simple_applications/tensorflow/mnist/mnist_code_only.py", ""),
    ("simple_applications/tensorflow/mnist/mnist.py", ""),
    ("simple_applications/tensorflow2/mnist/mnist.py", ""),
    ("simple_applications/tensorflow2/mnist/mnist_code_only.py", ""),
    ("tutorials/tensorflow1/basics/tut1_porting_a_model/example_1.py", ""),
    ("tutorials/tensorflow1/basics/tut2_loops_data_pipeline/example_2.py", ""),
    ("tutorials/tensorflow1/pipelining/answers/step3_pipelining.py", "--repeat-count 3 --steps 9"),
    ("tutorials/tensorflow1/pipelining/step1_single_ipu.py", "--batches-to-accumulate 1 --repeat-count 5 --steps 9"),
    ("tutorials/tensorflow2/infeed_outfeed/completed_code/mnist_with_feeds.py", ""),
    ("tutorials/tensorflow2/infeed_outfeed/completed_code/mnist_without_feeds.py", ""),
)


class Recorder:
    """Keeps what a program computes, and ends it after the first executions. Args: to: the file for its values."""

    def __init__(self, to: str) -> None:
        self._to, self._values = to, list[list[float]]()
        self.queues: list[Any] = []  # of a program that reads them at its end

    def keep(self, values: Any) -> None:
        """Values of an execution: numbers that are not whole, in any structure."""
        found = [np.asarray(each) for each in tf().nest.flatten(values) if each is not None]
        flat = [float(number) for each in found if each.dtype.kind == "f" for number in each.ravel()]
        self._values += [flat] if flat else []
        if len(self._values) == FIRST:
            self.end()

    def end(self) -> None:
        """Ends the process. Without values to compare it is a failure."""
        Path(self._to).write_text(json.dumps(self._values), encoding="utf-8")
        sys.stdout.flush()
        os._exit(0 if self._values else 1)

    def watch_version_1(self, session: Any) -> None:
        """Args: session: TensorFlow's class, whose results are kept."""
        run = session.run

        def kept(self_: Any, fetches: Any, *arguments: Any, **options: Any) -> Any:
            results = run(self_, fetches, *arguments, **options)
            self.keep(results)
            return results

        session.run = kept

    def watch_version_2(self, strategy: Any, queue: Any) -> None:
        """Args: strategy, queue: the classes of `IPUStrategy` and `IPUOutfeedQueue`, whose results are kept; so are Keras' losses."""
        run, init, fit = strategy.run, queue.__init__, tf().keras.Model.fit

        def kept(*arguments: Any, **options: Any) -> Any:
            result = run(*arguments, **options)
            self.keep([result, *(each.dequeue() for each in self.queues)])
            return result

        def made(queue: Any, *arguments: Any, **options: Any) -> None:
            init(queue, *arguments, **options)
            self.queues.append(queue)

        def told(model: Any, *arguments: Any, callbacks: Any = (), **options: Any) -> Any:
            own = tf().keras.callbacks.LambdaCallback(on_train_batch_end=lambda _, logs: self.keep(logs))
            return fit(model, *arguments, callbacks=[*(callbacks or ()), own], **options)

        strategy.run, queue.__init__, tf().keras.Model.fit = kept, made, told


def tf() -> Any:
    """The module that the program imports."""
    return import_module("tensorflow")


class _Infeed:
    def __init__(self, dataset: Any, *_: Any, **__: Any) -> None:
        self._iterator = tf().compat.v1.data.make_initializable_iterator(dataset)
        self.initializer, self.element = self._iterator.initializer, self._iterator.get_next()


class _Outfeed:
    def __init__(self, *_: Any, **__: Any) -> None:
        self.structure: Any = None
        self.values: list[Any] = []

    def enqueue(self, tensors: Any) -> Any:
        if tf().executing_eagerly():
            self.values.append(tensors)
            return None
        self.structure = tensors
        return tf().no_op()

    def dequeue(self) -> Any:
        if tf().executing_eagerly():
            values, self.values = self.values, []
            return [np.stack(each) for each in zip(*map(tf().nest.flatten, values), strict=True)]
        flat = tf().nest.flatten(self.structure)

        def take() -> list[Any]:
            values, self.values = self.values, []
            return [np.stack(each) for each in zip(*values, strict=True)]

        made = tf().numpy_function(take, [], [each.dtype for each in flat])
        return tf().nest.pack_sequence_as(self.structure, made if isinstance(made, list) else [made])


class _Strategy:
    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def scope(self) -> Any:
        return nullcontext(self)

    def run(self, function: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        tf().config.run_functions_eagerly(True)  # what XLA compiles could not take from an iterator
        try:
            return function(*args, **(kwargs or {}))
        finally:
            tf().config.run_functions_eagerly(False)


class _Schedule(enum.IntEnum):
    Grouped, Interleaved, Sequential = range(3)


class Stock:
    """`tensorflow.python.ipu` on one device of stock TensorFlow: a loop runs its step in the session again and again."""

    def __init__(self) -> None:
        self._running: list[tuple[Any, Any]] = []  # sessions that run, each with what is fed
        self._outfeeds: list[_Outfeed] = []

    def install(self) -> None:
        """Programs import it from now on."""
        session = tf().compat.v1.Session
        self._run = session.run
        session.run = self._noted
        parts = {
            "config": {"IPUConfig": MagicMock, "SelectionOrder": MagicMock()},
            "ipu_strategy": {"IPUStrategy": _Strategy},
            "ipu_compiler": {"compile": self._compile},
            "loops": {"repeat": self._repeat},
            "ipu_infeed_queue": {"IPUInfeedQueue": _Infeed},
            "ipu_outfeed_queue": {"IPUOutfeedQueue": self._outfeed},
            "pipelining_ops": {"pipeline": self._pipeline, "PipelineSchedule": _Schedule, "OptimizerFunctionOutput": lambda *given: given},
            "scopes": {"ipu_scope": lambda _: nullcontext()},
            "utils": {"move_variable_initialization_to_cpu": lambda: None, "SelectionOrder": MagicMock()},
        }
        whole: Any = ModuleType("tensorflow.python.ipu")
        whole.__path__ = []
        for name, members in parts.items():
            module = ModuleType(f"tensorflow.python.ipu.{name}")
            vars(module).update(members)
            setattr(whole, name, module)
            sys.modules[module.__name__] = module
        sys.modules["tensorflow.python.ipu"] = import_module("tensorflow.python").ipu = whole

    def _outfeed(self, *_: Any, **__: Any) -> _Outfeed:
        self._outfeeds.append(_Outfeed())
        return self._outfeeds[-1]

    def _noted(self, session: Any, fetches: Any, feed_dict: Any = None, *rest: Any) -> Any:
        self._running.append((session, feed_dict))
        try:
            return self._run(session, fetches, feed_dict, tf().compat.v1.RunOptions(inter_op_thread_pool=-1), *rest[1:])
        finally:
            self._running.pop()

    def _compile(self, computation: Callable[..., Any], inputs: Any = ()) -> Any:
        with tf().variable_scope("", use_resource=True):
            made = computation(*(inputs or ()))
        flat = [each for each in tf().nest.flatten(made) if each is not None]
        tensors = [each for each in flat if not isinstance(each, tf().Operation)]
        with tf().control_dependencies([each for each in flat if isinstance(each, tf().Operation)]):
            return [tf().identity(each) for each in tensors] or tf().no_op()

    def _again(self, times: int, body: Callable[[list[Any]], Any], carried: list[Any], outer: list[Any]) -> list[Any]:
        """What a step of the session's graph gives after some times. Args: outer: tensors that stay; `body` takes both."""
        places = [tf().placeholder(each.dtype, each.shape) for each in (*carried, *outer)]
        before = {queue: queue.structure for queue in self._outfeeds}
        step, after = body(places)
        sending = [queue for queue in self._outfeeds if queue.structure is not before[queue]]

        def run(*values: Any) -> list[Any]:
            state, constant = list(values[: len(carried)]), values[len(carried) :]
            for number in range(times):
                session, fed = self._running[-1]
                feed = {**(fed or {}), **dict(zip(places, [*state, *constant], strict=True))}
                state, sent, kept = self._run(session, (step[0], [tf().nest.flatten(each.structure) for each in sending], step[1]), feed)
                for queue, each in zip(sending, sent, strict=True):
                    queue.values.append(each)
                after(session, feed, number, kept)
            return [*state, np.float32(0)]

        with tf().control_dependencies(None):
            return list(tf().numpy_function(run, [*carried, *outer], [*(each.dtype for each in carried), tf().float32]))

    def _repeat(self, n: int, body: Callable[..., Any], inputs: Any = (), infeed_queue: Any = None) -> Any:
        carried = [tf().convert_to_tensor(each) for each in inputs or ()]

        def step(places: list[Any]) -> Any:
            element = () if infeed_queue is None else infeed_queue.element
            made = tf().nest.flatten(body(*places, *element))
            operations = [each for each in made if isinstance(each, tf().Operation)]
            return ([each for each in made if each not in operations], operations), lambda *_: None

        *results, done = self._again(n, step, carried, [])
        return results or done.op

    def _pipeline(
        self,
        computational_stages: Any,
        gradient_accumulation_count: int,
        repeat_count: int,
        inputs: Any,
        infeed_queue: Any,
        outfeed_queue: Any,
        optimizer_function: Any,
        **_: Any,
    ) -> Any:
        def step(places: list[Any]) -> Any:
            values = (*places, *infeed_queue.element)
            for stage in computational_stages:
                values = stage(*values)
            optimizer, loss, *_ = optimizer_function(*values)
            outfeed_queue.enqueue(loss)
            pairs = optimizer.compute_gradients(loss)
            fed = [tf().placeholder(variable.dtype.base_dtype, variable.shape) for _, variable in pairs]
            update = optimizer.apply_gradients([(gradient, pair[1]) for gradient, pair in zip(fed, pairs, strict=True)])
            sums: list[Any] = []

            def after(session: Any, feed: Any, number: int, gradients: Any) -> None:
                sums[:] = [one + other for one, other in zip(sums, gradients, strict=True)] if sums else gradients
                if (number + 1) % gradient_accumulation_count == 0:
                    self._run(session, update, {**feed, **dict(zip(fed, sums, strict=True))})
                    sums.clear()

            return ([], [gradient for gradient, _ in pairs]), after

        given = [tf().convert_to_tensor(each) for each in inputs]
        return self._again(gradient_accumulation_count * repeat_count, step, [], given)[0].op


def make_alike(recorder: Recorder, version: str, side: str) -> None:
    """From now on random numbers are those of the other side, and what a program computes is kept."""
    seeds = import_module("tensorflow.python.framework.random_seed")
    seeds.get_seed = lambda _: (0, 1)  # TensorFlow 1 counts a graph's nodes for it
    if version == "1":
        tf().disable_v2_behavior()
    random.seed(0)  # of which Keras takes its seeds
    np.random.seed(0)
    if side == "stock":
        Stock().install()
    ipu = import_module("tensorflow.python.ipu")
    if version == "1":
        recorder.watch_version_1(tf().Session)
    else:
        recorder.watch_version_2(ipu.ipu_strategy.IPUStrategy, _Outfeed if side == "stock" else ipu.ipu_outfeed_queue.IPUOutfeedQueue)
        if side == "stock":
            ipu.ipu_outfeed_queue.IPUOutfeedQueue = _Outfeed


def run_one(side: str, version: str, to: str, program: str, *arguments: str) -> None:
    """Runs a program until enough is kept."""
    if side == "stock" and version == "1":
        sys.modules["tensorflow"] = import_module("tensorflow.compat.v1")
    tensorflow_stand_ins.install()
    sys.argv, sys.path[0] = [program, *arguments], os.path.dirname(program)
    recorder = Recorder(to)
    make_alike(recorder, version, side)
    runpy.run_path(program, run_name="__main__")
    recorder.end()


def compared(program: Path, version: str, words: str) -> dict[str, Any]:
    """How many values of a program were compared, and the largest relative difference."""
    values: list[list[list[float]]] = []
    for side in ("tilestep", "stock"):
        with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
            front = ["-m", "tilestep", "run", f"--tensorflow={version}", "--no-intervals"] if side == "tilestep" else []
            command = [sys.executable, *front, __file__, "--one", side, version, file.name, str(program), *words.split()]
            environ = {**os.environ, "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
            done = subprocess.run(command, cwd=program.parent, env=environ, capture_output=True, text=True)
            if done.returncode:
                return {"failed": f"{side}: {tensorflow_judge.reason(done.stdout + done.stderr)}"}
            values.append(json.load(file))
    ours, stock = (np.array([number for each in side for number in each]) for side in values)
    if ours.shape != stock.shape:
        return {"failed": f"tilestep gives {ours.size} values, stock TensorFlow {stock.size}"}
    difference = np.abs(ours - stock) / np.maximum(np.abs(stock), 1e-30)
    return {"numbers": ours.size, "largest_difference": float(f"{difference.max():.2g}"), "equal": bool(difference.max() <= BOUND)}


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        return run_one(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path, metavar="CHECKOUTS", help="a folder with graphcore/tutorials")
    parser.add_argument("--only", default="", metavar="WORD", help="programs that have this word in their path")
    options = parser.parse_args()
    record = json.loads(tensorflow_judge.RECORD.read_text(encoding="utf-8"))
    rows = {tensorflow_judge.path_of(row): row for row in tensorflow_judge.programs()}
    answers = {row["program"]: row for row in record["answers"]}
    with tempfile.TemporaryDirectory() as folder:
        copies: dict[str, Path] = {}
        for program, words in PROGRAMS:
            row = rows[program]
            if options.only not in program:
                continue
            if row["repository"] not in copies:
                checkout = options.checkouts / row["repository"]
                copies[row["repository"]] = tensorflow_judge.copy_of(checkout, row["commit"], Path(folder) / row["repository"])
            found = compared(copies[row["repository"]] / program, row["tensorflow"], words)
            print(program, found, flush=True)
            answers[program]["values"] = found
            tensorflow_judge.RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
