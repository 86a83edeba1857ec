"""Executables in files: what is saved, what is taken back, and what a damaged or foreign one is."""

import hashlib
import io
import json
import pickle
import re
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.models import (
    WEIGHT,
    Model,
    cpu,
    inference,
    ipu,
    ipu_model,
    numbers,
    prepared,
    run,
    same,
    squares,
    trained,
    training,
)
from tilestep import popart


def acquired() -> popart.DeviceInfo:
    device = popart.DeviceManager().acquireAvailableDevice(1, 16)
    assert device is not None
    return device


def offline() -> popart.DeviceInfo:
    """A device to compile for, with the tiles of `acquired`."""
    return ipu()


def session_of(model: Model, **changes: Any) -> popart.InferenceSession:
    return inference(model.proto, {model.y: "All"}, device=offline(), prepare=False, **changes)


@pytest.fixture(scope="module")
def model() -> Model:
    return squares()


@pytest.fixture(scope="module")
def executable(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("executable") / "model.popef"
    session_of(model).compileAndExport(str(path))
    return path


@pytest.mark.slow
def test_a_saved_program_runs_in_another_session(model: Model, tmp_path: Path) -> None:
    inputs, path = numbers(2, 1), tmp_path / "below" / "training.popef"
    with acquired() as device:
        session = training(model, {"w": "All"}, batches=2, device=device)
        expected = run(session, {model.x: inputs})["w"]
        session.saveExecutable(str(path))
    with acquired() as device:
        again = training(model, {"w": "All"}, batches=2, device=device, prepare=False)
        again.loadExecutable(str(path))
        prepared(again)
        same(run(again, {model.x: inputs})["w"], expected)
        same(expected[1], trained(inputs).weight)
        with pytest.raises(popart.popart_runtime_error, match=r"^Unable to get reports when using a cached executable"):
            again.getReport()


@pytest.mark.parametrize("device", [cpu, ipu_model])
def test_devices_without_executables_refuse(device: Any, model: Model, tmp_path: Path) -> None:
    session = inference(model.proto, {model.y: "All"}, device=device(), prepare=False)
    with pytest.raises(popart.popart_exception, match=r"^Executables for device type (cpu|ipu-model) cannot be saved"):
        session.compileAndExport(str(tmp_path / "model.popef"))
    assert not any(tmp_path.iterdir())


def test_a_file_that_is_not_there_and_one_that_is_none(model: Model, tmp_path: Path) -> None:
    session = session_of(model)
    with pytest.raises(popart.popart_exception, match=r"^Could not open file .*none.popef"):
        session.loadExecutable(str(tmp_path / "none.popef"))
    (tmp_path / "text.popef").write_text("text")
    (tmp_path / "empty.popef").write_bytes(b"")
    for name in ("text", "empty"):
        with pytest.raises(popart.popart_runtime_error, match=f"{name}.popef is no executable, or it is damaged"):
            session.loadExecutable(str(tmp_path / f"{name}.popef"))


PATTERNS = popart.SyncPattern


def of_two_ipus(pattern: popart.SyncPattern) -> popart.DeviceInfo:
    return popart.DeviceManager().acquireAvailableDevice(2, 16, pattern)


@pytest.fixture(scope="module")
def sharded() -> Model:
    """y = 2 * (x @ w), with the sum on another IPU than the product."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3])
    w = builder.addInitializedInputTensor(WEIGHT, "w")
    with builder.virtualGraph(0):
        product = builder.aiOnnx.matmul([x, w])
    with builder.virtualGraph(1):
        y = builder.aiOnnx.add([product, product])
    return Model(proto=builder.getModelProto(), x=x, w=w, y=y, loss="")


def placed(model: Model, device: popart.DeviceInfo, **changes: Any) -> popart.InferenceSession:
    manual = popart.VirtualGraphMode.Manual
    return inference(model.proto, {model.y: "All"}, device=device, virtualGraphMode=manual, **{"prepare": False, **changes})


@pytest.mark.parametrize(
    ("compiled", "loaded"),
    [
        (PATTERNS.SinglePipeline, PATTERNS.Full),
        (PATTERNS.ReplicaAndLadder, PATTERNS.Full),
        (PATTERNS.ReplicaAndLadder, PATTERNS.SinglePipeline),
    ],
)
def test_an_executable_is_refused_by_a_device_with_another_sync_pattern(
    compiled: popart.SyncPattern, loaded: popart.SyncPattern, sharded: Model, tmp_path: Path
) -> None:
    path = tmp_path / "model.popef"
    with of_two_ipus(compiled) as first, of_two_ipus(loaded) as second:
        placed(sharded, first).compileAndExport(str(path))
        message = f"^Attempt to load graph compiled with target options {{SyncConfiguration: {compiled}}} onto a device with "
        with pytest.raises(popart.poplar_exception, match=f"{message}{{SyncConfiguration: {loaded}}}"):
            placed(sharded, second).loadExecutable(str(path))
        placed(sharded, first).loadExecutable(str(path))


def test_the_executable_of_another_session_is_refused(builder: popart.Builder, model: Model, executable: Path) -> None:
    x = builder.addInputTensor("FLOAT", [2, 3], "input")
    w = builder.addInitializedInputTensor(WEIGHT, "w")
    y = builder.aiOnnx.matmul([x, w])
    foreign = [
        inference(builder.getModelProto(), {y: "All"}, device=offline(), prepare=False),
        inference(model.proto, {model.y: "Sum"}, device=offline(), prepare=False),
        inference(model.proto, {model.y: "All"}, batches=2, device=offline(), prepare=False),
        training(model, {model.y: "All"}, device=offline(), prepare=False),
        inference(model.proto, {model.y: "All"}, device=popart.DeviceManager().createOfflineIPUDevice({"tilesPerIPU": 32}), prepare=False),
        session_of(model, partialsTypeMatMuls="half"),
    ]
    for session in foreign:
        with pytest.raises(popart.popart_runtime_error, match="belongs to another session"):
            session.loadExecutable(str(executable))
    session_of(model).loadExecutable(str(executable))


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(path: Path, members: dict[str, bytes], *, sign: bool) -> str:
    """Writes members. Args: sign: whether the manifest gets their hashes, as someone who means harm would do."""
    if sign:
        manifest = json.loads(members["manifest.json"])
        facts = {"weights": json.dumps(manifest["weights"]), "sync_pattern": manifest["sync_pattern"]}
        parts = {**members, **{name: text.encode() for name, text in facts.items()}}
        manifest["sha256"] = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items() if name != "manifest.json"}
        members = {**members, "manifest.json": json.dumps(manifest).encode()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return str(path)


@pytest.mark.parametrize("member", ["step.stablehlo", "weights.npz"])
def test_an_altered_member_is_found_by_its_hash(model: Model, executable: Path, tmp_path: Path, member: str) -> None:
    members = members_of(executable)
    members[member] = members[member][:-1] + b"!"
    with pytest.raises(popart.popart_runtime_error, match="was altered: the hash of a member"):
        session_of(model).loadExecutable(archive_of(tmp_path / "x.popef", members, sign=False))
    del members[member]
    with pytest.raises(popart.popart_runtime_error, match="was altered: the hash of a member"):
        session_of(model).loadExecutable(archive_of(tmp_path / "x.popef", members, sign=False))


def test_altered_names_of_weights_are_found(model: Model, executable: Path, tmp_path: Path) -> None:
    members = members_of(executable)
    manifest = json.loads(members["manifest.json"])
    for names in (["v"], ["w", "w"], []):
        altered = {**members, "manifest.json": json.dumps({**manifest, "weights": names}).encode()}
        with pytest.raises(popart.popart_runtime_error, match="was altered: the hash of a member"):
            session_of(model).loadExecutable(archive_of(tmp_path / "x.popef", altered, sign=False))


def test_weights_that_unpack_to_more_than_the_sessions_are_not_unpacked(model: Model, executable: Path, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{"000000": np.zeros(10**6, np.float32)})
    path = archive_of(tmp_path / "x.popef", {**members_of(executable), "weights.npz": buffer.getvalue()}, sign=True)
    with pytest.raises(popart.popart_runtime_error, match=r"was altered: its weights have 4,000,\d\d\d B, and those of the session"):
        session_of(model).loadExecutable(path)


@pytest.mark.parametrize(("member", "most_bytes"), [("step.stablehlo", 1 << 20), ("weights.npz", 1 << 14), ("manifest.json", 1 << 13)])
def test_a_member_larger_than_the_sessions_own_is_not_unpacked(
    model: Model, executable: Path, tmp_path: Path, member: str, most_bytes: int
) -> None:
    session, path = session_of(model), tmp_path / "x.popef"
    session.loadExecutable(str(executable))  # so that the bound of its program is at hand
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members_of(executable).items():
            archive.writestr(name, bytes(1 << 26) if name == member else data)
    tracemalloc.start()
    try:
        with pytest.raises(popart.popart_runtime_error, match=f"was altered: its member {member} has more than [0-9,]+ B") as caught:
            session.loadExecutable(str(path))
        assert tracemalloc.get_traced_memory()[1] < 1 << 23  # parts of 1 MiB, of a member of 64 MiB
    finally:
        tracemalloc.stop()
    (bound,) = re.findall(r"more than ([0-9,]+) B", str(caught.value))
    assert int(bound.replace(",", "")) < most_bytes


def test_what_is_compressed_otherwise_is_not_unpacked(model: Model, executable: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.popef"
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):  # one part of these may unpack to any size
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, data in members_of(executable).items():
                archive.writestr(name, data)
        with pytest.raises(popart.popart_runtime_error, match="was altered: a member is compressed otherwise than by deflate"):
            session_of(model).loadExecutable(str(path))


class Harm:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_pickled_weights_are_not_unpickled(model: Model, executable: Path, tmp_path: Path) -> None:
    harmed = tmp_path / "harmed"
    buffer = io.BytesIO()
    np.savez(buffer, **{"000000": np.array([Harm(harmed)], object)})
    for weights in (buffer.getvalue(), pickle.dumps(Harm(harmed))):
        path = archive_of(tmp_path / "x.popef", {**members_of(executable), "weights.npz": weights}, sign=True)
        with pytest.raises(popart.popart_runtime_error, match="is no executable, or it is damaged"):
            session_of(model).loadExecutable(path)
    assert not harmed.exists()


def test_signed_members_that_do_not_fit_are_named_errors(model: Model, executable: Path, tmp_path: Path) -> None:
    members = members_of(executable)
    session = session_of(model)
    session.loadExecutable(archive_of(tmp_path / "x.popef", {**members, "step.stablehlo": b"nonsense"}, sign=True))
    with pytest.raises(popart.popart_runtime_error, match=r"^The executable's program is damaged"):
        session.prepareDevice(loadEngine=False)
    buffer = io.BytesIO()
    np.savez(buffer, **{"000000": np.zeros((7, 7), np.float32)})
    with pytest.raises(popart.popart_runtime_error, match="non matching tensor info"):
        session_of(model).loadExecutable(archive_of(tmp_path / "y.popef", {**members, "weights.npz": buffer.getvalue()}, sign=True))
    for manifest in (b"[]", b"{}", b"nonsense", b'{"form": "tilestep executable 2", "sha256": 3, "weights": 4}', b"\xff"):
        with pytest.raises(popart.popart_runtime_error):
            session_of(model).loadExecutable(archive_of(tmp_path / "z.popef", {**members, "manifest.json": manifest}, sign=False))


# -------------------------------------------------------------------------------------------------------------------- cache


def cached(model: Model, folder: Path, **more: Any) -> tuple[popart.InferenceSession, Any]:
    """A session that ran, and its result."""
    with acquired() as device:
        session = inference(model.proto, {model.y: "All"}, device=device, enableEngineCaching=True, cachePath=str(folder), **more)
        return session, run(session, {model.x: numbers(1)})[model.y]


def was_hit(session: popart.InferenceSession) -> bool:
    """Whether the program came from the cache: then there is no report."""
    try:
        session.getSummaryReport()
    except popart.popart_runtime_error as error:
        return str(error).startswith("Unable to get reports when using a cached executable")
    return False


def test_the_second_session_takes_the_program_of_the_first(model: Model, tmp_path: Path) -> None:
    expected = numbers(1)[0] @ WEIGHT
    for hit in (False, True):
        session, found = cached(model, tmp_path)
        same(found, expected)
        assert was_hit(session) == hit
    other = squares(start=WEIGHT + 1)  # other weights: the same program, with the session's own weights
    session, found = cached(other, tmp_path)
    assert was_hit(session)
    same(found, numbers(1)[0] @ (WEIGHT + 1))
    assert len(list(tmp_path.iterdir())) == 1
    session, _ = cached(model, tmp_path, partialsTypeMatMuls="half")
    assert not was_hit(session)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_damaged_file_in_the_cache_is_compiled_anew(model: Model, tmp_path: Path) -> None:
    expected = numbers(1)[0] @ WEIGHT
    cached(model, tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-30])
    for hit in (False, True):
        session, found = cached(model, tmp_path)
        assert was_hit(session) == hit
        same(found, expected)


def test_a_program_that_prints_cannot_be_saved(builder: popart.Builder, tmp_path: Path) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    y = builder.aiGraphcore.printtensor([x])
    session = inference(builder.getModelProto(), {y: "All"}, device=offline(), prepare=False)
    with pytest.raises(popart.popart_exception, match="can't be saved, because it calls functions of this process"):
        session.compileAndExport(str(tmp_path / "x.popef"))
