"""The name `popart` for programs that were written for the original, in a process of its own: the name is the whole process's."""

from pathlib import Path

import pytest

from tests.processes import run_python

WAYS = {
    "popxl": "write the program with tilestep.popart's Builder",
    "popxl.ops": "write the program with tilestep.popart's Builder",
    "popart.ir": "write the program with popart.Builder",
    "popart._internal.ir": "register_op",
    "popart_internal_ir": "all public names are in `popart`",
    "popart.torch": "torch.onnx.export",
    "popdist": "set SessionOptions.enableReplicatedGraphs",
    "popdist.popart": "set SessionOptions.enableReplicatedGraphs",
    "pva": "tilestep.open_report",
}
BEFORE = """
import sys
from tilestep.popart.install import install

try:
    import popart
except ModuleNotFoundError as error:
    print(error)

sys.path.insert(0, OTHER)
import popart
try:
    install()
except ImportError as error:
    print(error)
sys.path.remove(OTHER)
del sys.modules["popart"], popart
"""
INSTALLED = """
install()
import popart, popart_core, popart.session, popart.builder
import tilestep.popart as here, tilestep.popart.session as session, tilestep.popart.builder as builder
print(popart is here, popart_core is here, popart.session is session, popart.builder is builder)
print(session.__name__, session.__spec__.name, here.__name__, here.__spec__.name)

from popart.tensorinfo import TensorInfo
from tilestep.popart.tensors import TensorInfo as Here
print(TensorInfo is Here)

before = list(sys.meta_path)
install()
import popart
print(sys.meta_path == before)
"""
REFUSED = """
import importlib
for name in ("popart.nothing", *WAYS):
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.process
def test_programs_find_the_package_by_all_names_of_the_original_once_it_is_installed(tmp_path: Path) -> None:
    (tmp_path / "popart.py").write_text("")
    done = run_python("-c", f"OTHER = {str(tmp_path)!r}\nWAYS = {list(WAYS)}\n{BEFORE}{INSTALLED}{REFUSED}")
    assert done.returncode == 0, done.stderr
    without, taken, same, names, class_is_one, second, nothing, *refused = done.stdout.splitlines()
    assert without == "No module named 'popart'"
    assert f"the name popart is taken by {tmp_path / 'popart.py'}" in taken
    assert same == "True True True True"
    assert names == "tilestep.popart.session tilestep.popart.session tilestep.popart tilestep.popart"
    assert class_is_one == "True"
    assert second == "True", "a second call changes nothing"
    assert nothing == "ModuleNotFoundError No module named 'popart.nothing'"
    for (module, way), said in zip(WAYS.items(), refused, strict=True):
        first, *rest = module.split(".")
        named = ".".join([first, *rest[:1]]) if first == "popart" else first
        assert f"no module named '{named}'" in said
        assert way in said
