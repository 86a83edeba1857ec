"""The C extension; everything else about the package stands in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, PlatformError

NATIVE = Path("src/tilestep/pjrt/native")
LIMITED_API = "0x030B0000"  # Python 3.11: one build serves every later Python


class BuildNative(build_ext):
    """Compiles the extension, and says what is missing where a machine cannot."""

    def run(self) -> None:
        try:
            super().run()
        except (CCompilerError, ExecError, PlatformError) as error:
            raise SystemExit(
                f"\ntilestep: its C extension did not compile ({error}).\n"
                "  It needs a C11 compiler and Python's headers; on Debian and Ubuntu:\n"
                "      apt-get install gcc python3-dev\n"
            ) from error


setup(
    ext_modules=[
        Extension(
            "tilestep.pjrt._native",
            sources=[str(source) for source in sorted(NATIVE.glob("*.c"))],
            depends=[str(header) for header in sorted(NATIVE.glob("*.h"))],
            include_dirs=[str(NATIVE)],
            define_macros=[("Py_LIMITED_API", LIMITED_API)],
            extra_compile_args=["-std=c11", "-O2", "-g0", "-Wall", "-Wextra"],
            py_limited_api=True,
        )
    ],
    cmdclass={"build_ext": BuildNative},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
