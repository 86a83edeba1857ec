"""A model in segments, each of which computes by itself again what its backward pass needs.

One `jax.checkpoint` around the whole model would compute all of it again before backward begins, and have all of it in the tiles once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from tilestep.popart.options import SessionOptions
from tilestep.popart.session.analysis import Analysis
from tilestep.popart.session.graph import SessionGraph, Values
from tilestep.popart.session.marking import Mark
from tilestep.popart.session.recompute import Policy, kept_tensors
from tilestep.popart.session.staging import SessionStage, Staging
from tilestep.popart.session.staging.splitting import Home, split


@dataclass(frozen=True, kw_only=True)
class Segments:
    """Operators that run together, one group after the other.

    Attributes:
        parts: of the model, in order.
        policy: of `jax.checkpoint`: which tensors are kept.
    """

    parts: tuple[SessionStage, ...]
    policy: Policy

    def run(self, graph: SessionGraph, values: Values, key: Any, marking: Callable[[Values], Mark]) -> tuple[Values, Values]:
        """Runs the model for one microbatch.

        Args:
            values: inputs and variables, by name.
            key: a random key, if the model draws.
            marking: what each tensor's name and value are given to, which names it for `jax.checkpoint`, and puts values into its argument.

        Returns:
            (these values, new statistics), by name.
        """
        known, found, state = dict(values), dict[str, Any](), dict[str, Any]()
        for part in self.parts:

            def segment(given: Values, part: SessionStage = part) -> tuple[Values, Values, Values]:
                marked = dict[str, Any]()
                return *graph.run_stage(part, given, key, marking(marked)), marked

            given = {name: known[name] for name in (*part.reads, *part.variables)}
            results = jax.checkpoint(segment, policy=self.policy)(given)
            for all_of, own in zip((known, state, found), results, strict=True):
                all_of.update(own)
        return found, state


def segments_of(graph: SessionGraph, analysis: Analysis, options: SessionOptions, staging: Staging) -> Segments | None:
    """The segments of a session of one stage. Each ends with results that are kept. None if nothing is computed again."""
    (stage,) = staging.stages
    kept = kept_tensors(graph, analysis.types, options, staging, stage)
    if kept is None:
        return None
    homes: list[Home] = []
    placed: dict[int, int] = {}
    ended = True  # the segment before
    for position in stage.nodes:
        made = {name for name in graph.graph.nodes[position].outputs if name}
        if made <= analysis.values.keys():
            continue
        if ended and made.isdisjoint(kept):
            homes.append(Home(ipu=0))
        placed[position] = max(0, len(homes) - 1)
        ended = not made.isdisjoint(kept)
    parts = split(graph, analysis, homes or [Home(ipu=0)], placed)
    return Segments(parts=parts, policy=jax.checkpoint_policies.save_only_these_names(*sorted(kept)))
