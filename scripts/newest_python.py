"""Prints the newest Python of this machine that can build tilestep and is newer than the one that runs this. Runs on any Python 3.

It looks in PATH, then among the versions of pyenv. Nothing is printed if there is none.
"""

import glob
import os
import re
import shutil
import subprocess
import sys

import prerequisites


def candidates(version, path, pyenv):
    """Programs of this version that may be it, the best first. Args: version: such as (3, 13). pyenv: its folder of versions."""
    name = "python{}.{}".format(*version)
    found = glob.glob(os.path.join(pyenv, "{}.{}.*[0-9]".format(*version), "bin", name))  # one with a t at the end has no stable ABI
    found.sort(key=lambda program: [int(number) for number in re.findall(r"\d+", program[len(pyenv) :])], reverse=True)
    return [program for folder in path.split(os.pathsep) for program in [shutil.which(name, path=folder)] if program] + found


def works(program):
    """Whether it runs (pyenv puts names into PATH that only say that they do not), and lacks nothing."""
    folder = os.path.dirname(os.path.abspath(__file__))
    words = [program, os.path.join(folder, "prerequisites.py")]
    return subprocess.call(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0


def newest(path, pyenv, before):
    """The newest Python, or None. Args: before: the version that it has to be newer than."""
    major, last = prerequisites.NEWEST
    for minor in range(last, before[1], -1):
        for program in candidates((major, minor), path, pyenv):
            if works(program):
                return program
    return None


def versions_of_pyenv():
    """Its folder of versions: of the root that is named, else the one that this Python is in, else the one in the home."""
    beside = os.path.dirname(sys.base_prefix)
    if "PYENV_ROOT" not in os.environ and os.path.basename(beside) == "versions":
        return beside
    return os.path.join(os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv"), "versions")


if __name__ == "__main__":
    print(newest(os.environ.get("PATH", os.defpath), versions_of_pyenv(), sys.version_info) or "")
