"""The C extensions, PJRT's layout, the page's script and style; everything else about the package stands in pyproject.toml."""

from __future__ import annotations

import runpy
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CCompilerError, ExecError, PlatformError

LIMITED_API = "0x030B0000"  # Python 3.11: one build serves every later Python


class BuildNative(build_ext):
    """Compiles the extensions, and says what is missing where a machine cannot."""

    def run(self) -> None:
        try:
            super().run()
        except (CCompilerError, ExecError, PlatformError) as error:
            raise SystemExit(
                f"\ntilestep: a C extension did not compile ({error}).\n"
                "  They need a C11 compiler and Python's headers; on Debian and Ubuntu:\n"
                "      apt-get install gcc python3-dev\n"
            ) from error


class BuildPage(build_py):
    """Puts the page's script and style into the wheel joined and minified. An editable install joins the sources when it writes a page."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        import minify  # of tdewolff-minify

        views = Path("src/tilestep/views")
        join = runpy.run_path(str(views / "page" / "modules.py"))

        def read(path: str) -> str:
            return (views / "assets" / path).read_text(encoding="utf-8")

        folder = Path(self.build_lib, "tilestep/views/assets")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / join["SCRIPT"]).write_text(minify.string("application/javascript", join["joined"]("main.js", read)), encoding="utf-8")
        (folder / join["STYLE"]).write_text(minify.string("text/css", join["joined_style"]("main.css", read)), encoding="utf-8")


def extension(name: str, folder: Path) -> Extension:
    """A module of all C files in a folder."""
    return Extension(
        name,
        sources=[str(source) for source in sorted(folder.glob("*.c"))],
        depends=[str(header) for header in sorted(folder.glob("*.h"))],
        include_dirs=[str(folder)],
        define_macros=[("Py_LIMITED_API", LIMITED_API)],
        extra_compile_args=["-std=c11", "-O2", "-g0", "-Wall", "-Wextra", "-pthread"],
        extra_link_args=["-pthread"],
        py_limited_api=True,
    )


runpy.run_path("scripts/generate_capi.py")["write"]()  # before any command looks for sources, and before `depends` lists headers
setup(
    ext_modules=[
        extension("tilestep.pjrt._native", Path("src/tilestep/pjrt/native")),
        extension("tilestep.train._feeds", Path("src/tilestep/train/native")),
    ],
    cmdclass={"build_ext": BuildNative, "build_py": BuildPage},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
