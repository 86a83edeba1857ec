"""`tilestep run --tensorflow`: gives a program that was written for TensorFlow for the IPU its modules, on stock TensorFlow."""

import functools
import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from tilestep.cli.program import CodeProgram, Program, ScriptProgram
from tilestep.cli.usage import tell

VERSIONS: Final = ("", "1", "2")  # as --tensorflow[=VERSION] names them; '': what the program says
# Words of TensorFlow 1, in the forms that programs have: a session, its placeholders and variables, and the loops of a graph.
_OF_VERSION_1: Final = re.compile(
    r"compat\.v1|compat import v1|disable_v2_behavior|\.Session\(|\.placeholder\(|\.get_variable\(|loops\.repeat|ipu_compiler"
)
_OF_VERSION_2: Final = re.compile(r"IPUStrategy|@tf\.function|\.fit\(|compat\.v2|enable_v2_behavior")


def install_tensorflow(version: str, program: Program, command: str) -> bool:
    """Makes `tensorflow.python.ipu` importable, in the form that the program has. Returns: whether it could; a message says why not."""
    try:
        from tilestep.tensorflow import use_version_1
    except ImportError as error:
        tell(command, f"--tensorflow: {error}")
        return False
    if not version:
        text = _text(program)
        version = "1" if _OF_VERSION_1.search(text) and not _OF_VERSION_2.search(text) else "2"
        tell(command, f"the program looks like one of TensorFlow {version}; --tensorflow={'2' if version == '1' else '1'} says otherwise")
    if version == "1":
        use_version_1()
    return True


def names_of_then(command: str) -> AbstractContextManager[None]:
    """Inside, the program has the names of NumPy that it had when it was written."""
    from tilestep.cli.former_numpy import former_numpy

    return former_numpy(functools.partial(tell, command))


@functools.cache
def _text(program: Program) -> str:
    """The program's source, as far as it is one file."""
    if isinstance(program, CodeProgram):
        return program.code
    if not isinstance(program, ScriptProgram):
        return ""
    path = Path(program.name)
    try:
        return (path / "__main__.py" if path.is_dir() else path).read_text(encoding="utf-8", errors="replace")
    except OSError:  # whoever runs it says so
        return ""
