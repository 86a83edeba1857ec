"""`tilestep.profile()` and `tilestep.dry_run()`: the cost of programs on the emulated machine, with values or without."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal, final

from tilestep.errors import RecordingError
from tilestep.hints import nothing_computed
from tilestep.messages import shown

if TYPE_CHECKING:
    from pathlib import Path

    from tilestep.recording.tables import Tables
    from tilestep.views.page.frame import PageFrame
    from tilestep.views.profile import Profile

_OF_WITH: Final = 3  # frames from here to the `with` of a context manager that contextlib makes


@final
class Recording:
    """The result of `profile()`. Once its block has ended, it has every attribute of the `Profile`."""

    def __init__(self) -> None:
        self._profile: Profile | None = None
        self._tables: Tables | None = None

    def complete(self, profile: Profile, tables: Tables | None) -> None:
        """Gives the recording its profile, and its tables if they are kept; `profile()` does when the block ends."""
        self._profile, self._tables = profile, tables

    @property
    def tables(self) -> Tables | None:
        """The tables of run.tilestep; None if nobody asked for a directory."""
        return self._tables

    @property
    def profile(self) -> Profile:
        """The finished profile. Raises: RuntimeError inside the block."""
        if self._profile is None:
            raise RuntimeError("a profile is complete when its block has ended; read it after the `with`")
        return self._profile

    def show(self, *, height: int = 720) -> PageFrame:
        """The page of the recording, for a notebook: put this last in a cell.

        Args: height: of its frame, in CSS pixels.
        Raises: RuntimeError inside the block. ValueError if the profile was made without a directory, so that nothing was recorded, or if
            the height is no whole number from 1.
        """
        from tilestep.figures.reader import Report
        from tilestep.views.page import page_html
        from tilestep.views.page.frame import PageFrame

        if isinstance(height, bool) or not isinstance(height, int) or height < 1:  # a caller's mistake
            raise ValueError(f"height is {shown(height)}: it must be a whole number of pixels, 1 or more")
        profile = self.profile
        if self._tables is None:
            raise ValueError("this profile recorded nothing to show: name a directory, as in `with tilestep.profile('report') as profile:`")
        return PageFrame(html=page_html(Report(self._tables), labels=(profile.machine.name, "")), height=height)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "_repr_", "_ipython_")):  # copying and pickling ask for these before anything else exists
            raise AttributeError(name)
        return getattr(self.profile, name)

    def _repr_html_(self) -> str | None:  # IPython calls it
        return None if self._profile is None else self._profile._repr_html_()  # IPython's name

    def __repr__(self) -> str:
        return "<tilestep profile, still running>" if self._profile is None else repr(self._profile)


@contextlib.contextmanager
def profile(directory: str | PathLike[str] | None = None) -> Iterator[Recording]:
    """Profiles what platform `ipu` does inside the block, also if nothing uses the platform.

    Profiles nest; each covers its own block. Programs that were loaded before the block still are when it begins, and values in SRAM are
    still there. A block that ends by an exception has a profile, too.

    Args:
        directory: where to write `report.html`, `run.tilestep`, `profile.json` and `summary.txt`; made if it does not exist. A relative
            path counts from the working directory before the block. None: nowhere.

    Yields:
        A recording, which has every attribute of `Profile` once the block has ended.

    Raises:
        SettingsError: before the block if a setting was changed after JAX had started the platform.
        OSError: before the block if `directory` cannot be made or written to; after it if the files cannot be written (a full disk).
        RecordingError: after the block if the recording is too large for a file that can be read again.
        An error of the block goes before them, and has a note of what could not be written.

    Warns: RuntimeWarning after the block if only the page could not be made or written; it can be made of the recording later.
    """
    from tilestep.files import writable_directory
    from tilestep.views.files import unwritten, write_report

    target = None if directory is None else writable_directory(directory).absolute()
    result = None

    def write() -> str:
        if target is None or result is None:
            return ""
        return write_report(result.profile, writable_directory(target), recording=result.tables)  # the block may have removed it

    try:
        with profiled(target) as result:
            yield result
    except BaseException as error:
        try:
            missing = write()
        except (OSError, RecordingError) as reason:
            missing = unwritten(reason)
        if missing:
            error.add_note(f"tilestep.profile: {missing}")
        raise
    if without_page := write():
        warnings.warn(f"tilestep.profile: {without_page}", RuntimeWarning, stacklevel=_OF_WITH)


@contextlib.contextmanager
def profiled(target: Path | None, *, lines: bool = True, intervals: bool = True, ended_by: Callable[[], str] = str) -> Iterator[Recording]:
    """The same, but the caller writes the files. Only a program that does not fit writes its own, when it is compiled.

    Args:
        target: where they will be; None: nowhere. Else the recording has the tables of run.tilestep at its end, for which each program is
            planned again.
        lines: whether those, and what a program that does not fit writes, have lines of the user's source.
        intervals: whether the profile says how sure its figures are.
        ended_by: says at the block's end what ended the program before its own end, such as 'SIGTERM'; '': nothing.
    """
    from tilestep.pjrt.table.client import require_same_settings
    from tilestep.profiling.recording import recording  # imports the emulator, so only a profile pays for it
    from tilestep.profiling.report_folders import report_folder

    require_same_settings()
    result = Recording()
    with report_folder(target, lines=lines), recording(links=target is not None) as measure:
        try:
            yield result
        finally:
            measurement = measure().ended(ended_by(), intervals=intervals)
            tables = None if target is None else measurement.recording(lines=lines)
            result.complete(measurement.profile, tables)


@contextlib.contextmanager
def dry_run(values: Literal["error", "zeros"] = "error", *, trip_count: int | None = None) -> Iterator[None]:
    """Runs platform `ipu` without computing values or taking memory for them: any size of model on any host.

    Arrays made inside have a shape, a dtype and an emulated cycle, but no value. Emulated time and memory equal those of the same program
    with values. A program that needs more memory than its tiles have is planned nevertheless, and the profile says so. Callbacks are not
    called, and elements that are fed to programs are dropped. A branch that depends on data takes its dearest arm. Other platforms are
    not affected.

    Args:
        values: the result of reading an array: "error" raises, "zeros" gives zeros.
        trip_count: trips of each loop whose end depends on data. None: such a loop is an error that names its source line.

    Raises:
        SettingsError: if a setting was changed after JAX had started the platform.
        ValueError: if `values` is neither of the two, or `trip_count` is no whole number from 0.
        jax.errors.JaxRuntimeError: inside, for a read where `values` is "error", for a data-dependent loop without `trip_count`, and for a
            program that mixes dry values with values from before the block.
    """
    from tilestep.pjrt.running.dry import DryMode, dry_mode
    from tilestep.pjrt.table.client import require_same_settings

    if not isinstance(values, str) or values not in ("error", "zeros"):  # a caller's mistake
        raise ValueError(f"values is {shown(values)}: it must be 'error' or 'zeros'")
    if trip_count is not None and (isinstance(trip_count, bool) or not isinstance(trip_count, int) or trip_count < 0):  # a caller's mistake
        raise ValueError(f"trip_count is {shown(trip_count)}: it must be a whole number, 0 or more")
    require_same_settings()
    with dry_mode(DryMode(values=values, trip_count=trip_count)), nothing_computed("ipu", values):
        yield
