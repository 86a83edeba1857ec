"""What the rules say reads as TensorFlow's where a program of TensorFlow ran, and nowhere else."""

import re
from types import SimpleNamespace
from typing import Any

from tests.processes import ROOT
from tests.together import each
from tilestep.advice.finding import Finding
from tilestep.advice.ipus.pipelines import TRAIN
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.tensorflow_words import WORDS, in_tensorflow_words, of_tensorflow


def said(edit: str, text: str = "") -> tuple[str, str]:
    way = Way(edit=edit, change=lambda script: script, how="about")
    (only,) = in_tensorflow_words([Proposal(finding=Finding(kind="calls", text=text), ways=(way,))])
    return only.ways[0].edit, only.finding.text


@each(
    "edit, words",
    [
        ("loop over 20 calls of jit_step on the IPU (lax.scan)", "on the IPU (loops.repeat, or steps_per_execution of Keras)"),
        (
            "put x on the IPU once (jax.device_put), return it unchanged and donate it",
            "put x on the IPU once (as a constant or a variable)",
        ),
        ("test the results of jit_step on the IPU (lax.while_loop)", "on the IPU (loops.while_loop)"),
        ("they are alone. energy (md.py:4) runs 79 % of them outside of jit: jax.jit(energy).", "they are alone."),
        ("give the loop over body plan_options={'num_io_tiles': 32}", "set IPUConfig.io_tiles.num_io_tiles = 32"),
        ("jit step with compiler_options={'ipu_num_io_tiles': 32}, so that", "set IPUConfig.io_tiles.num_io_tiles = 32, so that"),
        ("keep the state on the IPUs (offload_optimizer_state=False)", "the IPUs (offload_weight_update_variables=False)"),
        ("keep carry[3][0].inner['Adam/m/w:0'] on the IPU", "keep Adam/m/w on the IPU (offload_weight_update_variables=False)"),
        ("keep args[1]['s1/w:0']['s1/w/Momentum:0'] on the IPU", "keep s1/w/Momentum on the IPU (offload_weight_update_variables=False)"),
        (
            "do 86 steps of jit_f in each call (a larger n of repeat)",
            "(a larger steps_per_execution of Keras or n of loops.repeat, or a loop over tf.range)",
        ),
        ("use 1,024 microbatches in place of 64 in pipeline 1", "set gradient_accumulation_count to 1,024 in place of 64 in pipeline 1"),
        ("if run got results of jit_step once, after its last run", "session.run fetched results of jit_step once, after its last run"),
        (
            "give repeat the same function at each call",
            "make the program once (ipu_compiler.compile, a tf.function, or compile of Keras)",
        ),
        (
            "make jit_step one program: arrays in place of static arguments, one dtype, one jit",
            "one program: tensors in place of Python's values, one dtype, one tf.function",
        ),
        ("use pipeline_schedule='grouped' in pipeline 1", "use PipelineSchedule.Grouped in pipeline 1"),
        (
            "accumulate 2 steps in jit_f before an exchange",
            "exchange (GradientAccumulationOptimizerV2, or set_gradient_accumulation_options)",
        ),
    ],
)
def test_an_edit_reads_as_a_program_of_tensorflow_makes_it(edit: str, words: str) -> None:
    assert said(edit)[0].endswith(words)


def test_it_needs_a_program_that_tensorflow_traced() -> None:
    def figures(scope: str) -> Any:
        return SimpleNamespace(supersteps=[SimpleNamespace(scope=scope)])

    assert of_tensorflow(figures("jit(repeat_body)/while/body/closed_call/tensorflow/dense/MatMul"))
    assert not of_tensorflow(figures("jit(step)/jvp(loss)/dot_general"))


@each("pattern", [pattern for pattern, _ in WORDS if not re.search(r"[(^|*+?]", re.sub(r"\\\\.", "", pattern))])
def test_what_is_replaced_is_what_a_rule_says(pattern: str) -> None:
    files = (ROOT / "src" / "tilestep" / "advice").rglob("*.py")
    rules = "".join(path.read_text(encoding="utf-8") for path in files if path.name != "tensorflow_words.py")
    joined = re.sub(r'"\s*f?"', "", rules)  # of strings that go on in the next line
    assert re.search(pattern, joined) or re.search(pattern, f"as {TRAIN.cut}") or pattern.startswith(("pinned", ", for run"))
