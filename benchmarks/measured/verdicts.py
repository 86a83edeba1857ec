"""Which batches of a network fit: '16 fits, 32 out of memory'."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from benchmarks.measured.answer import Answer, LeftOut, Recogniser, Verdict
from benchmarks.measured.rows import Row

_BATCHES: Final = re.compile(r"(\d+) (fits|out of memory|oom|does not fit)", re.IGNORECASE)


def largest(networks: Sequence[Recogniser], row: Row) -> Answer | LeftOut | None:
    """A verdict for each batch that the row's value names, of the first of these networks that the row is about."""
    found = _BATCHES.findall(row.value)
    if not found or re.search(r"\bbs? ?\d", row.shape):
        return None
    verdicts: list[Verdict] = []
    for batch, said in found:
        one = replace(row, shape=f"{row.shape} bs {batch}", value=said)
        answer = next((answer for recognise in networks if (answer := recognise(one)) is not None), None)
        if not isinstance(answer, Answer):
            return answer
        verdicts += [replace(verdict, what=f"bs {batch} {row.dtype}") for verdict in answer.verdicts]
    return Answer(verdicts=tuple(verdicts))
