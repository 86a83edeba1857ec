"""The name `popart` for programs that were written for the original. Each in a process: the name is the whole process's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run_python

INSTALLED = "from tilestep.popart.install import install; install()\n"


def printed(code: str) -> list[str]:
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_all_module_paths_give_the_package_itself() -> None:
    assert printed(
        INSTALLED
        + """
import popart, popart_core, popart.session, popart.builder
import tilestep.popart as here, tilestep.popart.session as session, tilestep.popart.builder as builder
print(popart is here, popart_core is here, popart.session is session, popart.builder is builder)
print(session.__name__, session.__spec__.name, here.__name__, here.__spec__.name)
"""
    ) == ["True True True True", "tilestep.popart.session tilestep.popart.session tilestep.popart tilestep.popart"]


def test_a_class_is_the_same_by_either_name() -> None:
    assert printed(
        INSTALLED
        + """
from popart.device_info import DeviceInfo
from tilestep.popart.device_info import DeviceInfo as Here
print(DeviceInfo is Here)
"""
    ) == ["True"]


def test_a_second_call_changes_nothing() -> None:
    assert printed(
        INSTALLED
        + """
import sys
before = list(sys.meta_path)
install()
import popart
print(sys.meta_path == before)
"""
    ) == ["True"]


@pytest.mark.parametrize(
    ("module", "way"),
    [
        ("popxl", "write the program with tilestep.popart's Builder"),
        ("popxl.ops", "write the program with tilestep.popart's Builder"),
        ("popart.ir", "write the program with popart.Builder"),
        ("popart._internal.ir", "register_op"),
        ("popart_internal_ir", "all public names are in `popart`"),
    ],
)
def test_what_has_no_counterpart_is_refused_with_the_way_out(module: str, way: str) -> None:
    found = printed(INSTALLED + f"try:\n    import {module}\nexcept ImportError as error:\n    print(error)\n")
    assert len(found) == 1
    assert found[0].startswith(
        f"no module named '{'.'.join(module.split('.')[:2]) if module.startswith('popart.') else module.split('.')[0]}"
    )
    assert way in found[0]


def test_a_module_that_nobody_has_is_not_found() -> None:
    assert printed(INSTALLED + "try:\n    import popart.nothing\nexcept ModuleNotFoundError as error:\n    print(error)\n") == [
        "No module named 'popart.nothing'"
    ]


def test_another_popart_that_is_imported_already_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "popart.py").write_text("")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import popart\n{INSTALLED}"
    done = run_python("-c", code)
    assert done.returncode == 1
    assert f"the name popart is taken by {tmp_path / 'popart.py'}" in done.stderr


def test_without_a_call_there_is_no_popart() -> None:
    done = run_python("-c", "import tilestep.popart.install, popart")
    assert "No module named 'popart'" in done.stderr
