"""Every public name of the package, so that a change of the API is a visible change of this file."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from tests.popart_names import POPART_NAMES

SRC = Path(__file__).resolve().parent.parent / "src"

_BY_PACKAGE = {
    "tilestep": """
        HloError LoopInterrupt Profile QueueError RecordingError SettingsError SpecError StoredError StreamingMemoryError
        TileMemoryError TilestepError TrainingPlan TrainingPlans UnsupportedError __version__ dry_run event heat_map hints
        open_report plan_training profile series tracepoint
    """,
    "tilestep.advice": "Advice Finding Gain Line Other Steady Together",
    "tilestep.figures": "ProgramProfile",
    "tilestep.figures.reader": """
        Block Compilation CompiledProgram CriticalPath Event Execution GlobalExchange HostExchange Lane LivenessStep MemoryReport
        OnTileExecute ProgramNode ProgramSequence ProgramVisitor Repeat Report Run SourceLine Span Step StreamCopy Switch System
        Target Unkept Variable Wait open_report
    """,
    "tilestep.machine": """
        DEFAULT_MACHINE FieldSource HostSpec IpuSpec LinkSpec MachineSpec SYNC_PATTERNS SyncPattern TileSpec changed_machine
        describe load_machine machine_names waited_seconds
    """,
    "tilestep.onnx": """
        DynamicShapeError Layers NodeError OnnxError OnnxModel Stages UnsafeModelError UnsupportedOpError ValueSpec export_onnx
        import_onnx register_op
    """,
    "tilestep.popart": " ".join(POPART_NAMES),
    "tilestep.tracing": """
        Channel HeatMap Series close create_channel current_file disable_channel enable_channel event heat_map is_channel_enabled
        list_channels series trace_calls tracepoint
    """,
    "tilestep.train": """
        AccumulationState Checkpoints Costs InfeedQueue JointState LayerCost LoopState OutfeedQueue Partition PendingFeeds Pipeline
        PipelineState ReplicaDifference Replicas Schedule Shard Timeline Watched accumulate_gradients apply_updates best_partition
        clear_feeds cross_replica cross_replica_all_gather cross_replica_all_to_all cross_replica_mean cross_replica_reduce_scatter
        cross_replica_sum dataset_benchmark effective_batch_size element_key frozen gradient gradient_accumulation infeed
        infeed_benchmark loop_state microbatches_of offloaded on_device outfeed parameter pending_feeds pipeline_partition placed
        placed_like recomputed repeat replica_count replica_differences replica_index replica_key replica_specs
        require_equal_replicas select_devices set_feed_timeout sharded start_processes transfer_from_outfeed transfer_to_infeed
        tuned unsharded watched while_loop
    """,
    "tilestep.train.schedules": """
        Costs Kind LayerCost Partition SCHEDULES Schedule Task Timeline best_partition costs_of from_table grouped interleaved
        loading_parameters looped offloading phases pipeline_partition sequential simulated_together stale stashed traced
        zero_bubble
    """,
}
PUBLIC_NAMES = sorted(f"{package}.{name}" for package, names in _BY_PACKAGE.items() for name in names.split())


def exported(path: Path) -> Iterator[str]:
    """Names that an `__init__.py` exports.

    They are `import x as x`, `from a import x as x`, all of `from a import *`, what it defines, and what its `__getattr__` compares with,
    without underscore.
    """
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")], module=str(module)):
                yield from exported(SRC / Path(*module.split(".")).with_suffix(".py"))
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
