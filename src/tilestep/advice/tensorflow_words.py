"""How a program for TensorFlow for the IPU says what the rules propose in JAX's words."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from tilestep.advice.finding import Line
from tilestep.advice.proposal import Proposal
from tilestep.figures.records import Figures
from tilestep.plan.frames import OF_USER, rank_of_file

_PROGRAM: Final = "/tensorflow/"  # a part of the scope of what TensorFlow has traced
_LOOP: Final = "loops.repeat, or steps_per_execution of Keras"
# What the rules say, as a pattern -> what such a program has in its place. They follow each other, so longer ones come first.
WORDS: Final = (
    (r"lax\.scan, or repeat of tilestep\.train|lax\.scan, lax\.fori_loop|lax\.fori_loop, lax\.scan", _LOOP),
    (r"jax\.lax\.scan over layers", "tf.while_loop over layers"),
    (r"lax\.scan", _LOOP),
    (r"lax\.while_loop", "loops.while_loop"),
    (r"a larger n of repeat", "a larger steps_per_execution of Keras or n of loops.repeat, or a loop over tf.range"),
    (r" \S+ \(\S+\) runs \S+ % of them outside of jit: jax\.jit\(\S+\)\.", ""),
    (r"\(jax\.device_put\), return (it|them) unchanged and donate \1", "(as a constant or a variable)"),
    (r"jax\.device_put", "as a constant or a variable"),
    (r"jit \S+ with compiler_options=\{'ipu_num_io_tiles': (\d+)\}", r"set IPUConfig.io_tiles.num_io_tiles = \1"),
    (r"give .+ plan_options=\{'num_io_tiles': (\d+)\}", r"set IPUConfig.io_tiles.num_io_tiles = \1"),
    (r"compile .+ with compiler_options=\{'ipu_partials_type': 'half'\}", "set IPUConfig.matmuls.poplar_options['partialsType'] = 'half'"),
    (r"offload_optimizer_state=False", "offload_weight_update_variables=False"),
    (r"is offloaded, the default on platform ipu", "is offloaded, as offload_weight_update_variables has it by default"),
    (r"^(keep .+ on the IPU)$", r"\1 (offload_weight_update_variables=False)"),
    (r"on the IPU, donated", "on the IPU"),
    (r"\w+(?:\[\d+\])+(?:\.inner|\['[^']+'\])\['([^']+):\d+'\]", r"\1"),  # a slot of an optimiser, of a loop or a pipeline
    (r"stops for its feeds", "stops for its IPUInfeedQueue, or Keras' data"),
    (
        r"Divide arrays over all of them \(jax\.sharding\), or use Replicas or Pipeline of tilestep\.train",
        "IPUConfig.auto_select_ipus makes more replicas, and stages of pipelining_ops.pipeline have an IPU each",
    ),
    (r"divide arrays among the IPUs \(jax\.sharding\) in place of a copy for each", "make stages of pipelining_ops.pipeline"),
    (r"arrays divided over more IPUs \(jax\.sharding\)", "stages on several IPUs (pipelining_ops.pipeline)"),
    (r"a Pipeline of tilestep\.train", "pipelining_ops.pipeline"),
    (r"jax\.checkpoint", "tf.recompute_grad"),
    (r"as tilestep\.train\.pipeline_partition would, which measures layers", "by layers that move to another one of computational_stages"),
    (r"use ([\d,]+) microbatches in place of ([\d,]+)", r"set gradient_accumulation_count to \1 in place of \2"),
    (r"pipeline_schedule='grouped'", "PipelineSchedule.Grouped"),
    (r"the schedule 'grouped'", "PipelineSchedule.Grouped"),
    (r"before an exchange", "before an exchange (GradientAccumulationOptimizerV2, or set_gradient_accumulation_options)"),
    (r"give repeat the same function at each call", "make the program once (ipu_compiler.compile, a tf.function, or compile of Keras)"),
    (r"repeat got a new function at each call, such as a lambda: define it once, outside of the loop around repeat", "each was made anew"),
    (r"arrays in place of static arguments, one dtype, one jit", "tensors in place of Python's values, one dtype, one tf.function"),
    (r"static argument, a Python number where an array was, or a new jit makes", "Python argument, or a new tf.function, makes"),
    (r"as arrays of one dtype, and jit once", "as tensors of one dtype, and make the function once"),
    (r"jitted function", "program (ipu_compiler.compile, or a tf.function)"),
    (r"pinned_host", "streaming memory"),
    (r"^if run got results of (\S+) once", r"if session.run fetched results of \1 once"),
    (r", for run\.$", ", which session.run fetches."),
    (r" from \S*/tensorflow/(\S+)", r" from \1"),
)


def of_tensorflow(figures: Figures) -> bool:
    """Whether a program of TensorFlow for the IPU ran."""
    return any(_PROGRAM in step.scope for step in figures.supersteps)


def in_tensorflow_words(proposals: Iterable[Proposal]) -> Iterator[Proposal]:
    """The proposals as such a program follows them, without donation, which it leaves to programs of its session."""
    for each in proposals:
        if each.finding.kind == "donation" and not any("jax.device_put" in way.edit for way in each.ways):
            continue
        finding = replace(each.finding, text=_said(each.finding.text), edit=_said(each.finding.edit), line=_own(each.finding.line))
        ways = (
            replace(way, edit=_said(way.edit), basis=_said(way.basis), within=_said(way.within), line=_own(way.line)) for way in each.ways
        )
        yield replace(each, finding=finding, ways=tuple(ways))


def _own(line: Line | None) -> Line | None:
    """A line of the user's. Others are of packages that TensorFlow's programs are made with here, such as optax."""
    return None if line is None or rank_of_file(line.file) != OF_USER else line


def _said(text: str) -> str:
    for pattern, words in WORDS:
        text = re.sub(pattern, words, text)
    return text
