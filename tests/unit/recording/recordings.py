"""Recordings that tests share."""

import zipfile
from collections.abc import Mapping
from io import BytesIO

import numpy as np

from tilestep.recording.storage.container import Builder, Tables, recording_bytes


def small_recording() -> Tables:
    """One program, two runs, some events."""
    builder = Builder(kind="run", notes={"jax": "0.10.2"})
    program = builder.append(
        "programs", key=7, name="step", fingerprint="ab" * 32, num_ipus=1, origin="user", group=-1, detailed=0, runs=2, loads=1
    )
    builder.append("lanes", kind=0, number=0, target=-1)
    builder.append("lanes", kind=1, number=0, target=-1)
    for _ in range(2):
        builder.append("runs", program=program, host_cycle=5, group=-1, entry=0, stage=-1, task=-1, microbatch=-1)
    starts = np.arange(0, 1000, 10)
    builder.extend(
        "events",
        lane=np.ones(100, int),
        kind=np.full(100, 3),
        start=starts,
        end=starts + 10,
        run=np.repeat([0, 1], 50),
        program=np.zeros(100, int),
        cause=np.arange(-1, 99),
    )
    builder.put_json("machine", {"name": "mk2"})
    return builder.tables()


def members_of(data: bytes) -> dict[str, bytes]:
    """The members of a zip file."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip file of any members."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def changed(members: Mapping[str, bytes | None]) -> bytes:
    """The small recording with some members replaced, or left out where they are None."""
    return zipped({name: data for name, data in {**members_of(recording_bytes(small_recording())), **members}.items() if data is not None})
