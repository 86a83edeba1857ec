"""How fast does the report page open and move with a million events on 256 lanes?

    benchmarks/report_page.py                                            a table
    benchmarks/report_page.py --peer                                     beside ECharts with a tenth of the events, got by `npm pack`
    benchmarks/report_page.py --json benchmarks/results/report_page.json

A page is opened from its file by Chromium, which draws by software. Two recordings: one whose runs are equal, as those of a program are,
and one with random times, which nothing can compress well. Needs the packages of the extra `test`, and Chromium.
Wall time is reported, never judged.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from benchmarks.commit import commit
from benchmarks.recordings import POD, recorded
from tilestep.figures.reader import Report
from tilestep.recording.schema import EVENT_KINDS, TABLES
from tilestep.recording.storage.container import Builder
from tilestep.recording.tables import Tables
from tilestep.views.page import page_html
from tilestep.views.page.block import packed
from tilestep.views.page.sections.registry import SECTIONS

EVENTS = 1_000_000
CHROMIUM = "/usr/bin/chromium"
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NOTE_READY = """
new MutationObserver(() => {
  if (document.documentElement.dataset.ready && window.readyAt === undefined) {
    window.readyAt = null;
    requestAnimationFrame(() => setTimeout(() => { window.readyAt = performance.now(); }));
  }
}).observe(document, {subtree: true, attributes: true, attributeFilter: ["data-ready"]});
"""
READY = "async () => { while (!window.readyAt) await new Promise((done) => setTimeout(done, 20)); return window.readyAt; }"
MOVE = """
async (keys) => {
  const canvas = document.querySelector('canvas[role="application"]');
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const [frames, draws] = [[], []];
  let before = await frame();
  for (const key of keys) {
    canvas.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
    const now = await frame();
    frames.push(now - before);
    before = now;
    const begin = performance.now();
    canvas.paintNow();
    draws.push(performance.now() - begin);
    before = await frame();
  }
  return [frames, draws];
}
"""
MOVES = [*("w" * 8), *("d" * 10), *("w" * 8), *("d" * 10), *("s" * 16), *("a" * 8)]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One page.

    Attributes:
        name: of what it shows, and by what.
        events: in it.
        file_bytes: of the page.
        section_wall_s, write_wall_s: to make the block of events, and to make the whole page.
        ready_wall_s: from the begin of the navigation to the first picture of the view.
        frame_wall_ms: between two frames while the keys zoom and move, at the median and at the 95th percentile.
        draw_wall_ms: the part of it that draws, at the median.
    """

    name: str
    events: int
    file_bytes: int
    section_wall_s: float | None
    write_wall_s: float | None
    ready_wall_s: float
    frame_wall_ms: tuple[float, float] | None
    draw_wall_ms: float


def pod_tables(events: int, *, random: bool) -> Tables:
    """A recording of 256 IPUs that run one program again and again.

    Args: events: about so many. random: each of them takes a time of its own.
    """
    with tempfile.TemporaryDirectory() as folder:
        tables = recorded(Path(folder), "--machine", "bow-pod256", "--dry-run", "-c", POD)
    columns = {name: tables.column("events", name).astype(np.int64) for name in TABLES["events"]}
    lanes = tables.column("lanes", "kind")
    runs, counts = np.unique(columns["run"][(columns["run"] >= 0) & (lanes[columns["lane"]] == 1)], return_counts=True)
    run = int(runs[np.argmax(counts)])
    rows = np.flatnonzero((columns["run"] == run) & (lanes[columns["lane"]] == 1) & (columns["kind"] != EVENT_KINDS.index("load")))
    times = -(-events // len(rows))
    one = {name: column[rows] for name, column in columns.items()}
    place = np.full(tables.rows("events"), -1)
    place[rows] = np.arange(len(rows))
    causes = np.where(one["cause"] >= 0, place[one["cause"]], -1)
    turn = np.repeat(np.arange(times), len(rows))
    lengths = np.tile(one["end"] - one["start"], times)
    starts = one["start"] - one["start"].min()
    period = int((one["end"] - one["start"].min()).max()) + 1_000
    start = np.tile(starts, times) + turn * period
    if random:
        generator = np.random.default_rng(0)
        lengths = generator.integers(10, 1_000_000, size=len(start))
        lane = np.tile(one["lane"], times)
        order = np.lexsort((start, lane))
        ends = np.cumsum(lengths[order])
        first = np.flatnonzero(np.diff(lane[order], prepend=-1))
        sizes = np.diff(first, append=len(order))
        start[order] = ends - lengths[order] - np.repeat(ends[first] - lengths[order][first], sizes)
    builder = Builder(kind="run")
    for text in tables.strings:
        builder.string(text)
    for table in ("frames", "programs", "lanes", "lives", "ticks", "code", "sums"):
        builder.extend(table, **{name: tables.column(table, name) for name in TABLES[table]})
    program = int(one["program"][0])
    builder.extend(
        "runs",
        program=np.full(times, program),
        host_cycle=np.arange(times) * period,
        group=np.full(times, -1, np.int64),
        entry=np.zeros(times, np.int64),
        stage=np.full(times, -1, np.int64),
        task=np.full(times, -1, np.int64),
        microbatch=np.full(times, -1, np.int64),
    )
    builder.extend(
        "events",
        lane=np.tile(one["lane"], times),
        kind=np.tile(one["kind"], times),
        start=start,
        end=start + lengths,
        run=turn,
        program=np.full(len(start), program),
        cause=np.where(np.tile(causes, times) >= 0, np.tile(causes, times) + turn * len(rows), -1),
    )
    for text in ("trees", "machine", "profile"):
        builder.put_text(text, tables.text(text))
    return builder.tables()


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = action()
    return time.perf_counter() - begin, result


def answer(name: str, tables: Tables, browser: Browser, folder: Path) -> Answer:
    section_wall_s, _ = timed(lambda: packed(SECTIONS["execution"](Report(tables))))
    write_wall_s, page = timed(lambda: page_html(Report(tables)))
    path = folder / "page.html"
    path.write_text(page)
    window = browser.new_page(viewport={"width": 1400, "height": 900})
    window.add_init_script(NOTE_READY)
    window.goto(f"{path.as_uri()}#execution")
    ready_ms: float = window.evaluate(READY)
    frames, draws = window.evaluate(MOVE, MOVES)
    window.close()
    return Answer(
        name=name,
        events=tables.rows("events"),
        file_bytes=path.stat().st_size,
        section_wall_s=round(section_wall_s, 2),
        write_wall_s=round(write_wall_s, 2),
        ready_wall_s=round(ready_ms / 1e3, 3),
        frame_wall_ms=(round(statistics.median(frames), 1), round(float(np.percentile(frames, 95)), 1)),
        draw_wall_ms=round(statistics.median(draws), 1),
    )


# -------------------------------------------------------------------------------------------------------------------- the peer

PEER = """<!doctype html><meta charset="utf-8"><div id="chart"></div><script>%(library)s</script><script>
document.getElementById("chart").style.cssText = "width:1180px;height:560px";
const rows = %(rows)s;
const chart = echarts.init(document.getElementById("chart"), null, {renderer: "canvas"});
const colors = ["#D55E00", "#0072B2", "#56B4E9", "#F0E442", "#CC79A7", "#009E73"];
function bar(_, api) {
  const begin = api.coord([api.value(1), api.value(0)]), end = api.coord([api.value(2), api.value(0)]);
  const shape = {x: begin[0], y: begin[1] - 1, width: Math.max(1, end[0] - begin[0]), height: 2};
  return {type: "rect", shape, style: {fill: colors[api.value(3) %% 6]}};
}
chart.on("finished", () => { window.readyAt ??= performance.now(); });
const series = {type: "custom", renderItem: bar, encode: {x: [1, 2], y: 0}, data: rows, dimensions: ["lane", "begin", "end", "kind"]};
const axes = {xAxis: {type: "value", max: %(last)d}, yAxis: {type: "value", max: 256}};
chart.setOption({animation: false, ...axes, dataZoom: [{type: "inside", filterMode: "weakFilter"}], series: [series]});
window.move = async () => {
  const draws = [];
  for (let turn = 0; turn < 6; turn++) {
    const begin = performance.now();
    chart.dispatchAction({type: "dataZoom", start: 10 + turn, end: 60 + turn});
    chart.getZr().flush();
    draws.push(performance.now() - begin);
  }
  return draws;
};
</script>"""


def peer(tables: Tables, browser: Browser, folder: Path) -> Answer:
    """The same by a custom series of ECharts."""
    subprocess.run(("npm", "pack", "--silent", "echarts"), cwd=folder, check=True, capture_output=True)
    [archive] = folder.glob("echarts-*.tgz")
    with tarfile.open(archive) as tar:
        file = tar.extractfile("package/dist/echarts.min.js")
        assert file is not None
        library = file.read().decode()
    columns = np.stack([tables.column("events", name).astype(np.int64) for name in ("lane", "start", "end", "kind")], axis=1)
    path = folder / "peer.html"
    path.write_text(PEER % {"library": library, "rows": json.dumps(columns.tolist()), "last": int(columns[:, 2].max())})
    window = browser.new_page(viewport={"width": 1400, "height": 900})
    window.goto(path.as_uri())
    ready_ms: float = window.evaluate(READY)
    draws: list[float] = window.evaluate("window.move()")
    window.close()
    return Answer(
        name=f"{archive.stem}, a tenth of the events",
        events=len(columns),
        file_bytes=path.stat().st_size,
        section_wall_s=None,
        write_wall_s=None,
        ready_wall_s=round(ready_ms / 1e3, 3),
        frame_wall_ms=None,
        draw_wall_ms=round(statistics.median(draws), 1),
    )


def answers(*, with_peer: bool) -> Iterator[Answer]:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        for random in (False, True):
            yield answer("random times" if random else "equal runs", pod_tables(EVENTS, random=random), browser, Path(folder))
        if with_peer:
            yield peer(pod_tables(EVENTS // 10, random=True), browser, Path(folder))
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="store_true", help="also draw a tenth of the events by ECharts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the record to FILE")
    arguments = parser.parse_args()
    print(f"{'page':44}{'events':>11}{'bytes':>12}{'section s':>11}{'write s':>9}{'ready s':>9}{'frame ms':>10}{'95 %':>8}{'draw ms':>9}")
    found: list[Answer] = []
    for row in answers(with_peer=arguments.peer):
        found.append(row)
        section, write = (f"{each:.2f}" if each is not None else "-" for each in (row.section_wall_s, row.write_wall_s))
        frame, late = (f"{each:.1f}" for each in row.frame_wall_ms) if row.frame_wall_ms else ("-", "-")
        print(
            f"{row.name:44}{row.events:11,}{row.file_bytes:12,}{section:>11}{write:>9}{row.ready_wall_s:9.2f}{frame:>10}{late:>8}"
            f"{row.draw_wall_ms:9.1f}",
            flush=True,
        )
    if arguments.json is not None:
        record = {
            "question": (__doc__ or "").splitlines()[0],
            "machine": "bow-pod256",
            "commit": commit(),
            "host": {"cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 1)},
            "versions": {name: version(name) for name in ("jax", "numpy", "tilestep", "playwright")},
            "answers": [asdict(row) for row in found],
        }
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
