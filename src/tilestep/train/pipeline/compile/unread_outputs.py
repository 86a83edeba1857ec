"""Finds outputs of the last level that nobody gets: they are no results of its programs, so that they never leave its devices."""

from __future__ import annotations

from collections.abc import Sequence

from tilestep.train.pipeline.compile.pipeline_spec import PipelineSpec
from tilestep.train.pipeline.compile.python_calls import calls_python
from tilestep.train.pipeline.compile.stage import Hidden, Stage
from tilestep.train.untyped import jax as _jax


def hidden_outputs(spec: PipelineSpec, stages: Sequence[Stage], read: Sequence[int]) -> tuple[Hidden, ...]:
    """For each stage the outputs that are no results of its programs. A stage that calls Python gives all, because a call has an effect.

    Args: read: indices of the last stage's outputs that the optimiser reads.
    """
    hidden = [Hidden()] * len(stages)
    last = spec.schedule.levels[-1]
    if spec.given_out is None:
        return tuple(hidden)
    plan = spec.optimizer
    for stage, given in zip(last, spec.given_out([stages[stage].outputs for stage in last]), strict=True):
        if calls_python(stages[stage], training=plan is not None):
            continue
        needed = {*given, *read}
        if spec.gives_loss and plan is not None and not plan.is_function:
            needed.add(0)  # the loss is the first output
        hidden[stage] = Hidden(range(len(_jax.tree.leaves(stages[stage].outputs)))) - needed
    return tuple(hidden)
