"""Recordings with many programs: what a page needs of each takes no longer where there are more."""

from __future__ import annotations

import time

import numpy as np

from tests.unit.report.reader.recorded import report_of, two_stages
from tilestep.record.container import Builder
from tilestep.record.tables import json_text
from tilestep.report.page.sections.head import head
from tilestep.report.reader import Report

PROGRAMS = 4_000
SECONDS = 8.0  # about half of it is usual; looking through all runs for each program takes more


def test_many_programs_and_runs_take_seconds() -> None:
    builder = Builder(kind="run", notes={})
    for key in range(PROGRAMS):
        builder.append(
            "programs",
            key=key,
            name=f"p{key % 3_000}",
            fingerprint=f"{key:x}",
            num_ipus=1,
            origin="user",
            group=-1,
            detailed=0,
            runs=10,
            loads=1,
        )
    count = 20 * PROGRAMS
    none, rows = np.full(count, -1), np.arange(count)
    builder.extend("runs", program=rows % PROGRAMS, host_cycle=rows, group=none, entry=rows * 0, stage=none, task=none, microbatch=none)
    builder.put_json("machine", json_text(report_of(two_stages()).tables, "machine"))
    begin = time.process_time()
    found = head(Report(builder.tables()))
    assert time.process_time() - begin < SECONDS
    labels = [row["label"] for row in found.json["programs"]]
    assert labels[0] == "p0 #0"
    assert labels[2_999] == "p2999"
