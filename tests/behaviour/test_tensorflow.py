"""Programs for TensorFlow for the IPU, unchanged, under `tilestep run --tensorflow`."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.processes import ROOT, run_python

pytestmark = pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs TensorFlow: make test-tensorflow")
PAGE = ROOT / "docs" / "how-to" / "tensorflow.md"
OF_JAX = re.compile(r"\b(jax|lax|tilestep\.train)\.|pinned_host|jitted|\b(primitive|loop|compilation|accumulation|base)\.py:")


def run(folder: Path, program: str, *options: str) -> tuple[str, str]:
    """(stdout, stderr) of a program that ends well. Its findings name no word of JAX, and no line that is not the program's."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    done = run_python("-m", "tilestep", "run", *options, "program.py", folder=folder, strict=False)
    assert done.returncode == 0, done.stderr
    assert not OF_JAX.search(" ".join(done.stderr.split("tilestep: fits")[1].split("Time of IPU")[0].split()))
    return done.stdout, done.stderr


def program_of_page(number: int) -> str:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[number]


def test_the_program_without_a_loop_learns_and_is_one_program_on_the_ipu(tmp_path: Path) -> None:
    out, err = run(tmp_path, program_of_page(0), "--tensorflow")
    losses = [float(value) for value in re.findall(r"[\d.]+(?=\)\])", out)]
    assert len(losses) == 3
    assert losses[0] == 1
    assert losses == sorted(losses, reverse=True)
    assert "looks like one of TensorFlow 1; --tensorflow=2 says otherwise" in err
    assert "jit_step" in err


def test_the_loop_of_the_documentation_gives_the_sum_and_the_difference_of_each_step(tmp_path: Path) -> None:
    out, err = run(tmp_path, program_of_page(1), "--tensorflow=1")
    assert out == "{'d1': ((10, 800), np.float32(2.0)), 'd2': ((10, 800), np.float32(0.0))}\n"
    assert "jit_repeat_body" in err
    assert "looks like" not in err


def test_the_function_of_the_documentation_goes_on_where_its_loop_ends(tmp_path: Path) -> None:
    out, err = run(tmp_path, program_of_page(2), "--tensorflow")
    assert out == "[ 1.  3.  6. 10.] 10.0 5.0\n"
    assert "looks like one of TensorFlow 2" in err
    assert "jit_repeat_loop" in err


def test_the_keras_model_of_the_documentation_learns_in_loops_of_the_runtime(tmp_path: Path) -> None:
    out, err = run(tmp_path, program_of_page(3), "--tensorflow=2")
    assert out == "True (512, 1)\n"
    assert "jit_repeat_sequential_train" in err
    said = " ".join(err.split())
    assert "keep Adam/m/dense/bias, Adam/m/dense/kernel and 4 more on the IPU (offload_weight_update_variables=False)" in said


ACCUMULATED = """
import threading
import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()
dataset = tf.data.Dataset.from_tensor_slices(np.linspace(0, 1, 64, dtype=np.float32)).repeat().batch(4, drop_remainder=True)
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

def body(x):
    weights = tf.get_variable("w", (2,), initializer=tf.zeros_initializer())
    loss = tf.reduce_mean((weights[0] * x + weights[1] - 3 * x - 1) ** 2)
    optimizer = ipu.optimizers.CrossReplicaGradientAccumulationOptimizerV2(
        tf.train.AdamOptimizer(0.1), 2, reduction_method="mean")
    return outfeed.enqueue(loss), optimizer.minimize(loss)

with ipu.scopes.ipu_scope("/device:IPU:0"):
    train = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(64, body, [], infeed))
losses = outfeed.dequeue()
got = []
with tf.Session() as session:
    session.run([tf.global_variables_initializer(), infeed.initializer])
    running = threading.Thread(target=lambda: [session.run(train) for _ in range(4)])
    running.start()
    while running.is_alive():
        got += [each.mean() for each in session.run(losses)]
    running.join()
    got += [each.mean() for each in session.run(losses)]
print(len(got), got[0] > 1, got[-1] < got[0] / 10)
"""


def test_replicas_accumulate_on_emulated_ipus_while_another_thread_reads(tmp_path: Path) -> None:
    out, err = run(tmp_path, ACCUMULATED, "--tensorflow=1")
    assert out == "256 True True\n"
    assert "256 steps" in err or "256 ran" in err
    assert "jit_init" not in err  # slots and accumulators come from the host


EXECUTIONS = """
import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

x = np.linspace(-1, 1, 2048, dtype=np.float32)[:, None]
with ipu.ipu_strategy.IPUStrategy().scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(16, "tanh", input_shape=(1,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(0.05), "mse", steps_per_execution={steps})
    model.fit(x, 3 * x + 1, epochs=2, batch_size=16, verbose=0)
"""


def test_keras_executions_of_one_step_are_told_to_do_more_and_those_of_many_are_not(tmp_path: Path) -> None:
    few, many = (" ".join(run(tmp_path, EXECUTIONS.format(steps=steps), "--tensorflow=2")[1].split()) for steps in (1, 64))
    told = re.search(
        r"do \d+ steps of jit_repeat_sequential_train in each call \(a larger steps_per_execution .*? of all \d+ %, ([\d.]+) ms", few
    )
    assert told is not None
    assert "steps_per_execution" not in many
    took = [float(re.findall(r"([\d.]+) ms emulated", said)[0]) for said in (few, many)]
    assert float(told[1]) == pytest.approx(took[0] - took[1], rel=0.1)  # what it is told is what it saves
