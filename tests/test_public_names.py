"""Every public name of the package, so that a change of the API is a visible change of this file."""

from __future__ import annotations

import ast
import importlib
import inspect
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
    "tilestep.advice.NEARLY_FULL",
    "tilestep.advice.Other",
    "tilestep.advice.Steady",
    "tilestep.advice.Together",
    "tilestep.advice.advice",
    "tilestep.advice.evidence_of",
    "tilestep.advice.findings",
    "tilestep.advice.steady_state",
    "tilestep.cli.main",
    "tilestep.cli.make_parser",
    "tilestep.cost.COLLECTIVES",
    "tilestep.cost.CONTROL_FLOW",
    "tilestep.cost.ELEMENTWISE",
    "tilestep.cost.ESTIMATORS",
    "tilestep.cost.Estimator",
    "tilestep.cost.FREE",
    "tilestep.cost.HOST_TRANSFERS",
    "tilestep.cost.PLANNED",
    "tilestep.cost.StepCost",
    "tilestep.cost.collective_compute_cycles",
    "tilestep.cost.elementwise_pass",
    "tilestep.cost.estimate",
    "tilestep.cost.fallback",
    "tilestep.cost.relaid",
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
    "tilestep.plan.Argument",
    "tilestep.plan.Branch",
    "tilestep.plan.Collective",
    "tilestep.plan.Counts",
    "tilestep.plan.Frame",
    "tilestep.plan.HostCall",
    "tilestep.plan.Life",
    "tilestep.plan.Liveness",
    "tilestep.plan.Loop",
    "tilestep.plan.PlanCache",
    "tilestep.plan.Program",
    "tilestep.plan.Result",
    "tilestep.plan.Series",
    "tilestep.plan.Superstep",
    "tilestep.plan.TileMemory",
    "tilestep.plan.check_fits",
    "tilestep.plan.check_streaming_memory",
    "tilestep.plan.lower",
    "tilestep.plan.lower_in_detail",
    "tilestep.plan.streaming_memory_bytes",
    "tilestep.plan.user_frame",
    "tilestep.plan_training",
    *[f"tilestep.popart.{name}" for name in POPART_NAMES],
    "tilestep.profile",
    "tilestep.program.ArrayShape",
    "tilestep.program.Computation",
    "tilestep.program.HloModule",
    "tilestep.program.Instruction",
    "tilestep.program.Shape",
    "tilestep.program.Work",
    "tilestep.program.parse_hlo",
    "tilestep.series",
    "tilestep.sim.Event",
    "tilestep.sim.EventKind",
    "tilestep.sim.Group",
    "tilestep.sim.KINDS",
    "tilestep.sim.Mark",
    "tilestep.sim.ProgramTotals",
    "tilestep.sim.Recurrence",
    "tilestep.sim.System",
    "tilestep.sim.TileUse",
    "tilestep.sim.Trace",
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
    "tilestep.train.schedules.from_csv",
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
    "tilestep.views.page.page_html",
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


def packages() -> Iterator[tuple[str, Path]]:
    """(dotted name, its __init__.py) of the package and the folders below it.

    Folders below tilestep.popart are left out: what is public of them has the original's name, and that is a name of tilestep.popart.
    """
    for path in sorted(SRC.glob("tilestep/**/__init__.py")):
        package = ".".join(path.parent.relative_to(SRC).parts)
        if not package.startswith("tilestep.popart."):
            yield package, path


def test_public_names_are_the_listed_ones() -> None:
    found = sorted(f"{package}.{name}" for package, path in packages() for name in exported(path))
    assert found == PUBLIC_NAMES


def test_every_public_name_is_there_and_explained() -> None:
    for public in PUBLIC_NAMES:
        module, _, name = public.rpartition(".")
        value = getattr(importlib.import_module(module), name)
        if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
            assert value.__doc__, public
