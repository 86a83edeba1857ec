"""Says, before anything is installed, what this machine lacks to build and run tilestep. Runs on any Python 3."""

import os
import shlex
import shutil
import sys
import sysconfig

OLDEST, NEWEST = (3, 11), (3, 13)


def python_problem(version):
    """What is wrong with this interpreter's version, or None."""
    if OLDEST <= version <= NEWEST:
        return None
    found, bounds = "{}.{}".format(*version), "{}.{} to {}.{}".format(*OLDEST, *NEWEST)
    return f"{sys.executable} is Python {found}, tilestep needs {bounds}: name another, for example `make demo PYTHON=python3.12`"


def venv_problem():
    """Whether virtual environments with pip can be made here, or None. (Debian packs them apart.)"""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as error:
        return f"{sys.executable} cannot make virtual environments ({error}); on Debian and Ubuntu: apt-get install python3-venv"
    return None


def header_problem(include):
    """Whether Python's C headers are missing from folder `include`, or None."""
    if os.path.exists(os.path.join(include, "Python.h")):
        return None
    return f"Python's C headers are missing (no Python.h in {include}); on Debian and Ubuntu: apt-get install python3-dev"


def compiler_problem(command):
    """Whether the C compiler that would be called is missing, or None."""
    program = shlex.split(command)[0]
    if shutil.which(program):
        return None
    return f"the C compiler {program!r} was not found; on Debian and Ubuntu: apt-get install gcc; or name another by CC=..."


def main():
    """Prints every problem found; exit status 1 if there is one."""
    found = (
        python_problem(sys.version_info[:2]),
        venv_problem(),
        header_problem(sysconfig.get_paths()["include"]),
        compiler_problem(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"),
    )
    problems = [problem for problem in found if problem]
    for problem in problems:
        sys.stderr.write(f"tilestep: {problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
