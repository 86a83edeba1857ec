"""`tilestep.profile()` and `tilestep.dry_run()`: what programs would cost on the emulated machine, with their values or without."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, final

from tilestep.hints import nothing_computed

if TYPE_CHECKING:
    from tilestep.report import Profile


@final
class Recording:
    """What `profile()` yields. Once its block has ended, it has every attribute of the `Profile`.

    Attributes: profile: the Profile itself. Raises RuntimeError while the block still runs.
    """

    def __init__(self) -> None:
        self._profile: Profile | None = None

    def complete(self, profile: Profile) -> None:
        """Gives the recording its profile; `profile()` does when the block ends."""
        self._profile = profile

    @property
    def profile(self) -> Profile:
        """The finished profile. Raises: RuntimeError inside the block."""
        if self._profile is None:
            raise RuntimeError("a profile is complete when its block has ended; read it after the `with`")
        return self._profile

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copying and pickling ask for these before anything else exists
            raise AttributeError(name)
        return getattr(self.profile, name)

    def __repr__(self) -> str:
        return "<tilestep profile, still running>" if self._profile is None else repr(self._profile)


@contextlib.contextmanager
def profile(directory: str | PathLike[str] | None = None) -> Iterator[Recording]:
    """Profiles what platform `ipu` does inside the block; works as well where nothing uses it.

    Profiles nest, each covers its own block. Programs that were loaded and values that lay in SRAM before the block still are
    when it begins. A block that ends by an exception has its profile, too.

    Args: directory: where to write `profile.json` and `summary.txt` as well; made if it is missing.
    Raises: OSError before the block runs if `directory` cannot be made or written to, and after it if its files cannot (a full disk).
    """
    from tilestep.files import writable_directory
    from tilestep.pjrt.running.recording import recording  # imports the emulator, so only a profile pays for it
    from tilestep.report.files import write_report

    target = None if directory is None else writable_directory(directory)
    result = Recording()
    with recording() as measure:
        try:
            yield result
        finally:
            result.complete(measure())
            if target is not None:
                write_report(result.profile, target)


@contextlib.contextmanager
def dry_run(values: Literal["error", "zeros"] = "error", *, trip_count: int | None = None) -> Iterator[None]:
    """Runs platform `ipu` without computing values or taking memory for them: any size of model on any host.

    Arrays made inside know shape, dtype and when they would have been ready; emulated time and memory are those of the same
    program with values. A program that needs more than its tiles have is planned all the same; the profile says so. Callbacks are
    not called, and what is fed to programs goes nowhere. Other platforms are untouched. Of a branch that depends on data, the dearest arm
    runs.

    Args:
        values: what reading an array gives: an error that says so, or zeros.
        trip_count: how often a loop runs whose end depends on data; None makes such a loop an error that names its source line.
    Raises: ValueError for a `values` that is neither, or a `trip_count` that is no whole number from 0. Inside: JaxRuntimeError for
        a read where `values` is "error", such a loop without `trip_count`, and a program that mixes dry values with ones made
        before the block.
    """
    from tilestep.pjrt.running.dry import DryMode, dry_mode

    if values not in ("error", "zeros"):
        raise ValueError(f"values is {values!r}: it must be 'error' or 'zeros'")
    if trip_count is not None and (isinstance(trip_count, bool) or not isinstance(trip_count, int) or trip_count < 0):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller's mistake
        raise ValueError(f"trip_count is {trip_count!r}: it must be a whole number, 0 or more")
    with dry_mode(DryMode(values=values, trip_count=trip_count)), nothing_computed("ipu", values):
        yield
