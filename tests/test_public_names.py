"""Every public name of the package, so that a change of the API is a visible change of this file."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from tests.popart_names import POPART_NAMES

SRC = Path(__file__).resolve().parent.parent / "src"

PUBLIC_NAMES = [
    "tilestep.HloError",
    "tilestep.LoopInterrupt",
    "tilestep.Profile",
    "tilestep.QueueError",
    "tilestep.RecordingError",
    "tilestep.SettingsError",
    "tilestep.SpecError",
    "tilestep.StoredError",
    "tilestep.StreamingMemoryError",
    "tilestep.TileMemoryError",
    "tilestep.TilestepError",
    "tilestep.TrainingPlan",
    "tilestep.TrainingPlans",
    "tilestep.UnsupportedError",
    "tilestep.__version__",
    "tilestep.advice.Advice",
    "tilestep.advice.Finding",
    "tilestep.advice.Gain",
    "tilestep.advice.Line",
    "tilestep.advice.Other",
    "tilestep.advice.Steady",
    "tilestep.advice.Together",
    "tilestep.dry_run",
    "tilestep.event",
    "tilestep.figures.ProgramProfile",
    "tilestep.figures.reader.Block",
    "tilestep.figures.reader.Compilation",
    "tilestep.figures.reader.CompiledProgram",
    "tilestep.figures.reader.CriticalPath",
    "tilestep.figures.reader.Event",
    "tilestep.figures.reader.Execution",
    "tilestep.figures.reader.GlobalExchange",
    "tilestep.figures.reader.HostExchange",
    "tilestep.figures.reader.Lane",
    "tilestep.figures.reader.LivenessStep",
    "tilestep.figures.reader.MemoryReport",
    "tilestep.figures.reader.OnTileExecute",
    "tilestep.figures.reader.ProgramNode",
    "tilestep.figures.reader.ProgramSequence",
    "tilestep.figures.reader.ProgramVisitor",
    "tilestep.figures.reader.Repeat",
    "tilestep.figures.reader.Report",
    "tilestep.figures.reader.Run",
    "tilestep.figures.reader.SourceLine",
    "tilestep.figures.reader.Span",
    "tilestep.figures.reader.Step",
    "tilestep.figures.reader.StreamCopy",
    "tilestep.figures.reader.Switch",
    "tilestep.figures.reader.System",
    "tilestep.figures.reader.Target",
    "tilestep.figures.reader.Unkept",
    "tilestep.figures.reader.Variable",
    "tilestep.figures.reader.Wait",
    "tilestep.figures.reader.open_report",
    "tilestep.heat_map",
    "tilestep.hints",
    "tilestep.machine.DEFAULT_MACHINE",
    "tilestep.machine.FieldSource",
    "tilestep.machine.HostSpec",
    "tilestep.machine.IpuSpec",
    "tilestep.machine.LinkSpec",
    "tilestep.machine.MachineSpec",
    "tilestep.machine.SYNC_PATTERNS",
    "tilestep.machine.SyncPattern",
    "tilestep.machine.TileSpec",
    "tilestep.machine.changed_machine",
    "tilestep.machine.describe",
    "tilestep.machine.load_machine",
    "tilestep.machine.machine_names",
    "tilestep.machine.waited_seconds",
    "tilestep.onnx.DynamicShapeError",
    "tilestep.onnx.Layers",
    "tilestep.onnx.NodeError",
    "tilestep.onnx.OnnxError",
    "tilestep.onnx.OnnxModel",
    "tilestep.onnx.Stages",
    "tilestep.onnx.UnsafeModelError",
    "tilestep.onnx.UnsupportedOpError",
    "tilestep.onnx.ValueSpec",
    "tilestep.onnx.export_onnx",
    "tilestep.onnx.import_onnx",
    "tilestep.onnx.register_op",
    "tilestep.open_report",
    "tilestep.plan_training",
    *[f"tilestep.popart.{name}" for name in POPART_NAMES],
    "tilestep.profile",
    "tilestep.series",
    "tilestep.tracepoint",
    "tilestep.tracing.Channel",
    "tilestep.tracing.HeatMap",
    "tilestep.tracing.Series",
    "tilestep.tracing.close",
    "tilestep.tracing.create_channel",
    "tilestep.tracing.current_file",
    "tilestep.tracing.disable_channel",
    "tilestep.tracing.enable_channel",
    "tilestep.tracing.event",
    "tilestep.tracing.heat_map",
    "tilestep.tracing.is_channel_enabled",
    "tilestep.tracing.list_channels",
    "tilestep.tracing.series",
    "tilestep.tracing.trace_calls",
    "tilestep.tracing.tracepoint",
    "tilestep.train.AccumulationState",
    "tilestep.train.Checkpoints",
    "tilestep.train.Costs",
    "tilestep.train.InfeedQueue",
    "tilestep.train.JointState",
    "tilestep.train.LayerCost",
    "tilestep.train.LoopState",
    "tilestep.train.OutfeedQueue",
    "tilestep.train.Partition",
    "tilestep.train.PendingFeeds",
    "tilestep.train.Pipeline",
    "tilestep.train.PipelineState",
    "tilestep.train.ReplicaDifference",
    "tilestep.train.Replicas",
    "tilestep.train.Schedule",
    "tilestep.train.Shard",
    "tilestep.train.Timeline",
    "tilestep.train.Watched",
    "tilestep.train.accumulate_gradients",
    "tilestep.train.apply_updates",
    "tilestep.train.best_partition",
    "tilestep.train.clear_feeds",
    "tilestep.train.cross_replica",
    "tilestep.train.cross_replica_all_gather",
    "tilestep.train.cross_replica_all_to_all",
    "tilestep.train.cross_replica_mean",
    "tilestep.train.cross_replica_reduce_scatter",
    "tilestep.train.cross_replica_sum",
    "tilestep.train.dataset_benchmark",
    "tilestep.train.effective_batch_size",
    "tilestep.train.element_key",
    "tilestep.train.frozen",
    "tilestep.train.gradient",
    "tilestep.train.gradient_accumulation",
    "tilestep.train.infeed",
    "tilestep.train.infeed_benchmark",
    "tilestep.train.loop_state",
    "tilestep.train.microbatches_of",
    "tilestep.train.offloaded",
    "tilestep.train.on_device",
    "tilestep.train.outfeed",
    "tilestep.train.parameter",
    "tilestep.train.pending_feeds",
    "tilestep.train.pipeline_partition",
    "tilestep.train.placed",
    "tilestep.train.placed_like",
    "tilestep.train.recomputed",
    "tilestep.train.repeat",
    "tilestep.train.replica_count",
    "tilestep.train.replica_differences",
    "tilestep.train.replica_index",
    "tilestep.train.replica_key",
    "tilestep.train.replica_specs",
    "tilestep.train.require_equal_replicas",
    "tilestep.train.schedules.Costs",
    "tilestep.train.schedules.Kind",
    "tilestep.train.schedules.LayerCost",
    "tilestep.train.schedules.Partition",
    "tilestep.train.schedules.SCHEDULES",
    "tilestep.train.schedules.Schedule",
    "tilestep.train.schedules.Task",
    "tilestep.train.schedules.Timeline",
    "tilestep.train.schedules.best_partition",
    "tilestep.train.schedules.costs_of",
    "tilestep.train.schedules.from_table",
    "tilestep.train.schedules.grouped",
    "tilestep.train.schedules.interleaved",
    "tilestep.train.schedules.loading_parameters",
    "tilestep.train.schedules.looped",
    "tilestep.train.schedules.offloading",
    "tilestep.train.schedules.phases",
    "tilestep.train.schedules.pipeline_partition",
    "tilestep.train.schedules.sequential",
    "tilestep.train.schedules.simulated_together",
    "tilestep.train.schedules.stale",
    "tilestep.train.schedules.stashed",
    "tilestep.train.schedules.traced",
    "tilestep.train.schedules.zero_bubble",
    "tilestep.train.select_devices",
    "tilestep.train.set_feed_timeout",
    "tilestep.train.sharded",
    "tilestep.train.start_processes",
    "tilestep.train.transfer_from_outfeed",
    "tilestep.train.transfer_to_infeed",
    "tilestep.train.tuned",
    "tilestep.train.unsharded",
    "tilestep.train.watched",
    "tilestep.train.while_loop",
]


def exported(path: Path) -> Iterator[str]:
    """Names that an `__init__.py` exports.

    They are `import x as x`, `from a import x as x`, what it defines, and what its `__getattr__` compares with, all without underscore.
    """
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.ImportFrom(names=names) | ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name == alias.asname and not alias.name.startswith("_"))
            case ast.FunctionDef(name="__getattr__"):
                yield from (str(c.value) for test in ast.walk(node) if isinstance(test, ast.Compare) for c in constants(test))
            case ast.Assign(targets=[ast.Name(id="__version__" as name)]):
                yield name
            case (
                ast.FunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.Assign(targets=[ast.Name(id=name)])
                | ast.AnnAssign(target=ast.Name(id=name))
            ) if not name.startswith("_"):
                yield name
            case _:
                pass


def constants(test: ast.Compare) -> Iterator[ast.Constant]:
    yield from (side for side in (test.left, *test.comparators) if isinstance(side, ast.Constant))


# What docs/reference/api/index.md promises. Whatever else the package has is private.
PROMISED = [
    "tilestep",
    "tilestep.figures.reader",
    "tilestep.hints",
    "tilestep.legacy",
    "tilestep.machine",
    "tilestep.onnx",
    "tilestep.popart",
    "tilestep.tracing",
    "tilestep.train",
    "tilestep.train.schedules",
]
# What a profile holds.
HELD = ("tilestep.advice", "tilestep.figures")


def test_public_names_are_the_listed_ones() -> None:
    files = {package: SRC / Path(*package.split("."), "__init__.py") for package in PROMISED}
    found = sorted(f"{package}.{name}" for package, path in files.items() if path.is_file() for name in exported(path))
    assert [name for name in PUBLIC_NAMES if name.rpartition(".")[0] not in HELD] == found


def test_the_page_of_the_api_promises_these_packages() -> None:
    page = (SRC.parent / "docs" / "reference" / "api" / "index.md").read_text(encoding="utf-8")
    promised, private = page.split("## What is private")
    assert sorted(set(re.findall(r"^\| \[?`?(tilestep[a-z_.]*)`?\]?", promised, re.MULTILINE))) == PROMISED
    assert "tilestep" in private


def test_documents_and_examples_import_what_is_promised() -> None:
    root = SRC.parent
    texts = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("examples/*.py")]
    imported = {
        name
        for text in texts
        for name in re.findall(r"^ *(?:from|import) (tilestep[a-z_.]*)", text.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert imported - set(PROMISED) == set()


def test_every_public_name_is_there_and_explained() -> None:
    for public in PUBLIC_NAMES:
        module, _, name = public.rpartition(".")
        value = getattr(importlib.import_module(module), name)
        if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
            assert value.__doc__, public
