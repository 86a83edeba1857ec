"""`tilestep run`: runs an unchanged JAX program on emulated IPUs, and prints its emulated time and memory."""

import argparse
import contextlib
import importlib.util
import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from tilestep.cli.first_import import first_import
from tilestep.cli.program import CodeProgram, InputProgram, ModuleProgram, Program, ScriptProgram, program_words, run_whole
from tilestep.cli.run_popart import require_fitting, run_popart, with_reports
from tilestep.cli.run_tensorflow import VERSIONS, install_tensorflow, names_of_then
from tilestep.cli.terminated import end
from tilestep.cli.usage import Once, Parser, UsageError, discard, given_path, tell, whole_number, working_directory
from tilestep.cuts import MAX_STAGES
from tilestep.engine_options import VARIABLE, require_report_directory
from tilestep.errors import RecordingError, SettingsError, SpecError
from tilestep.figures.file_names import PAGE_FILE, REPORT_FILES, RUN_FILE
from tilestep.figures.quantities import names_text
from tilestep.files import require_writable, writable_directory, write_file
from tilestep.machine.catalog import DEFAULT_MACHINE, machine_names
from tilestep.machine.fields import SYNC_PATTERNS
from tilestep.machine.toml import load_machine
from tilestep.messages import plain, shown
from tilestep.profiling.profiles import Recording, dry_run, profiled
from tilestep.settings import MAX_IPUS, MAX_TILES, read_settings
from tilestep.views.files import write_report

_COMMAND: Final = "tilestep run"
_PLATFORMS: Final = "ipu,cpu"
_POD_IPUS: Final = (4, 16, 64, 256)
_MAX_TRIPS: Final = 2**31 - 1
TAKE_A_VALUE: Final = (
    "--machine",
    "--ipus",
    "--tiles",
    "--sync-pattern",
    "--simulated-ipus",
    "--trip-count",
    "--json",
    "--report",
    "--propose-stages",
)
_OUTPUTS: Final = ("--json", "--report")
FLAGS: Final = ("--dry-run", "--all", "--no-intervals", "--no-source", "--popart", "--tensorflow")
_REFUSED: Final = 2  # the exit code of programs that do not know an option
_PIPE_WIDTH: Final = 100  # columns where stderr is no terminal
_USAGE: Final = (
    "tilestep run [--machine NAME|FILE.toml] [--ipus N] [--tiles N] [--sync-pattern PATTERN] [--dry-run[=zeros]] [--trip-count N] "
    "[--simulated-ipus N] [--all] [--no-intervals] [--json FILE] [--report DIR [--no-source]] [--popart [--propose-stages N]] "
    "[--tensorflow[=1|2]] (SCRIPT | -m MODULE | -c CODE) [ARGS...]"
)


def add_parser(subparsers: Any) -> None:
    """Adds `run` to the subparsers of `tilestep`.

    It takes all words as they are: argparse would look for options of its own behind SCRIPT, and take '--' away.
    """
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "run", help="run a JAX program on emulated IPUs and print its emulated time and memory", add_help=False, prefix_chars="\0"
    )
    parser.add_argument("words", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run)


def _option_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="tilestep run",
        usage=_USAGE,
        description="Runs a Python program, unchanged, with 'ipu' as JAX's default platform ('cpu' stays there). The program's own "
        "output and exit code stay as they are; at its end a summary of emulated time and memory goes to stderr.",
        epilog="The program is SCRIPT (a Python file, or a directory or zip file with __main__.py; - is standard input), -m MODULE or "
        "-c CODE, as for python itself. Options come before it; all that follows belongs to the program.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--machine", metavar="NAME|FILE.toml", help=f"machine to emulate (`tilestep machines` lists them; default {DEFAULT_MACHINE})"
    )
    parser.add_argument(
        "--ipus",
        type=whole_number(MAX_IPUS),
        metavar="N",
        help="IPUs, 1 to 256 (default: the machine's); with --popart, of the system whose devices a program acquires (default: 16)",
    )
    parser.add_argument(
        "--tiles",
        type=whole_number(MAX_TILES),
        metavar="N",
        help="tiles per IPU; a program that does not fit is reported, not refused",
    )
    parser.add_argument(
        "--sync-pattern",
        choices=SYNC_PATTERNS,
        metavar="PATTERN",
        help=f"which IPUs of a program wait for each other at a host access: {', '.join(SYNC_PATTERNS)} (default: the machine's)",
    )
    parser.add_argument(
        "--dry-run",
        nargs="?",
        const="error",
        choices=("error", "zeros"),
        metavar="zeros",
        help="compute no values and take no memory for them; reading one is an error, or gives zeros with =zeros",
    )
    parser.add_argument(
        "--trip-count", type=whole_number(_MAX_TRIPS), metavar="N", help="trips of each loop whose end depends on data; only with --dry-run"
    )
    parser.add_argument(
        "--simulated-ipus",
        type=whole_number(MAX_IPUS),
        metavar="N",
        help="simulate the first N IPUs of a machine whose IPU k does what IPU k modulo N does: those of one replica; only with --dry-run",
    )
    parser.add_argument("--all", action="store_true", help="also name findings that save less than 1 %% of emulated time")
    parser.add_argument("--no-intervals", action="store_true", help="leave out how sure the figures are, also of what is written")
    parser.add_argument(
        "--json",
        type=given_path,
        action=Once,
        metavar="FILE",
        help="also write the profile to FILE as JSON; with --popart only the proposals of --propose-stages",
    )
    parser.add_argument(
        "--report",
        type=given_path,
        action=Once,
        metavar="DIR",
        help="also write report.html, run.tilestep, profile.json and summary.txt into DIR, made if it is missing",
    )
    parser.add_argument(
        "--no-source",
        action="store_true",
        help="leave lines and paths of your source, and the findings that name them, out of what --report writes",
    )
    parser.add_argument(
        "--popart",
        action="store_true",
        help="give the program tilestep.popart where it imports popart; values are computed on the CPU, and each session is emulated on "
        "its device's machine, or on that of --machine",
    )
    parser.add_argument(
        "--tensorflow",
        nargs="?",
        const=VERSIONS[0],
        choices=VERSIONS,
        metavar="1|2",
        help="give the program tensorflow.python.ipu, on stock TensorFlow; =1 or =2 says which TensorFlow it was written for",
    )
    parser.add_argument(
        "--propose-stages",
        type=whole_number(MAX_STAGES),
        metavar="N",
        help="propose at most N pipeline stages for each session's model, by what its operators take; only with --popart",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Runs the program and prints the summary; returns the program's exit code, or 2 if nothing could be run.

    Raises: SystemExit with code 2 if an option is wrong, with 0 after --help.
    """
    own, rest = split_words(args.words)
    options = _option_parser().parse_args(own)
    if options.trip_count is not None and not options.dry_run:
        tell(_COMMAND, "--trip-count says what a dry run cannot know; it goes with --dry-run")
        return 2
    if options.simulated_ipus is not None and not options.dry_run:
        tell(_COMMAND, "--simulated-ipus leaves IPUs out, so that nothing has its values; it goes with --dry-run")
        return 2
    if options.no_source and options.report is None:
        tell(_COMMAND, "--no-source says what a recording leaves out; it goes with --report")
        return 2
    if options.propose_stages is not None and not options.popart:
        tell(_COMMAND, "--propose-stages is about the sessions of a PopART program; it goes with --popart")
        return 2
    if options.popart and options.tensorflow is not None:
        tell(_COMMAND, "--popart and --tensorflow are two front ends: give one of them")
        return 2
    try:
        if options.popart:
            require_fitting(options)
        program = read_program(rest, _USAGE)
        environ = environ_of(options, os.environ)
        json_path, report_path = output_paths(options)
    except UsageError as error:
        tell(_COMMAND, str(error))
        return 2
    if options.popart:
        environ = with_reports(environ, report_path, lines=not options.no_source)
        code = run_popart(program, environ, _COMMAND, num_stages=options.propose_stages, json_path=json_path, report_path=report_path)
        _tell_of_late_options(program, code)
        return code
    if report_path is not None and options.no_source:
        environ = _without_lines(environ, report_path)
    os.environ.update(environ)
    process = os.getpid()
    try:
        return _run_emulated(program, options, json_path, report_path)
    except KeyboardInterrupt:  # the program's own does not come here
        written = [plain(path) for path in (json_path, report_path) if path is not None]
        if written and os.getpid() == process:
            tell(_COMMAND, f"Ctrl-C came while the run was summed up: {names_text(written)} may be missing or incomplete")
        raise


def _run_emulated(program: Program, options: argparse.Namespace, json_path: Path | None, report_path: Path | None) -> int:
    """Raises: KeyboardInterrupt if Ctrl-C comes when the program has ended, and is summed up."""
    choose_platform()
    if options.tensorflow is not None and not install_tensorflow(options.tensorflow, program, _COMMAND):
        return _REFUSED
    stderr, process = sys.stderr, os.getpid()
    forks: list[int] = []
    os.register_at_fork(after_in_parent=lambda: forks.append(os.getpid()))
    mode = dry_run(options.dry_run, trip_count=options.trip_count) if options.dry_run else contextlib.nullcontext()
    ended_by = ""
    with (
        profiled(report_path, lines=not options.no_source, intervals=not options.no_intervals, ended_by=lambda: ended_by) as recording,
        mode,
        first_import(),
        contextlib.nullcontext() if options.tensorflow is None else names_of_then(_COMMAND),
    ):
        code, ended_by = run_whole(program)
    if os.getpid() != process:  # a fork of the program has come here, too
        return code
    last = getattr(sys, "last_value", None)
    if code and isinstance(last, ModuleNotFoundError) and last.name == "popart":
        tell(_COMMAND, "--popart before the program gives it tilestep.popart under that name")
    if code and isinstance(last, ModuleNotFoundError) and (last.name or "").startswith("tensorflow.python.ipu"):
        tell(_COMMAND, "--tensorflow before the program gives it tensorflow.python.ipu")
    _tell_of_late_options(program, code)
    unwritten = _tell(recording, stderr, options, json_path, report_path)
    ran = bool(recording.profile.programs)
    if recording.profile.verdict is not None and not recording.profile.verdict.fits:
        _tell_of_sweep(program, options, recording.profile.machine.num_ipus)
    if forks and not ran:
        tell(_COMMAND, "the program forked; what its other processes ran is not counted: tilestep.profile(DIR) in one of them reports it")
    if ran and "tilestep.popart" in sys.modules:
        tell(
            _COMMAND,
            "the program imports tilestep.popart: sessions count as what they run through JAX here, set-up included; --popart before the "
            "program emulates each by itself, on the machine of its device",
        )
    if ended_by.startswith("SIG"):
        end(code)
    return code or unwritten


def _tell(
    recording: Recording, stderr: TextIO | None, options: argparse.Namespace, json_path: Path | None, report_path: Path | None
) -> int:
    """Prints the summary and writes the files that the options name; returns 1 after a message if one cannot be written."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # none, closed, or read by nobody: the program's affair
        sys.stdout.flush()
    try:
        _show(recording, stderr, all_findings=options.all)
        if json_path is not None:
            write_file(json_path, recording.profile.to_json() + "\n")
        if report_path is not None:
            directory = writable_directory(report_path)  # the script may have removed it
            without_page = write_report(recording.profile, directory, recording=recording.tables, lines=not options.no_source)
            if without_page:
                tell(_COMMAND, without_page)
                return 1
            if recording.tables is not None:
                tell(_COMMAND, f"{plain(report_path / PAGE_FILE)} shows this run in a browser")
    except OSError as error:
        tell(_COMMAND, f"the profile could not be written: {plain(error.filename)}: {error.strerror}")
        return 1
    except RecordingError as error:
        tell(_COMMAND, f"the recording could not be written: {plain(error)}")
        return 1
    return 0


def _tell_of_late_options(program: Program, code: int) -> None:
    """A program may have been given an option that was meant for us: one that it refuses, or a place where it has written nothing."""
    late = [word for word in program.arguments if word.partition("=")[0] in (*TAKE_A_VALUE, *FLAGS)]
    if code != _REFUSED:
        late = [word for word in late if not code and _is_unwritten(word, program.arguments)]
    if late:
        option = plain(late[0].partition("=")[0])
        tell(_COMMAND, f"{option} stands after the program, so it is the program's own; where `tilestep run` is meant, put it before")


def _tell_of_sweep(program: Program, options: argparse.Namespace, num_ipus: int) -> None:
    """A program does not fit: which command would find where it does."""
    more = [str(number) for number in _POD_IPUS if number > num_ipus]
    if more and isinstance(program, ScriptProgram | ModuleProgram):
        machine = [] if options.machine is None else ["--machine", options.machine]
        words = ["tilestep", "sweep", *machine, "--ipus", ",".join(more), *program_words(program)]
        tell(_COMMAND, f"on how many IPUs a program fits that divides itself over them: {plain(shlex.join(words))}")


def _is_unwritten(word: str, arguments: Sequence[str]) -> bool:
    """Whether an option names a place to write to where nothing is. Args: word: the option, with its value or before it. arguments: all."""
    option, equals, value = word.partition("=")
    if not equals:
        value = (*arguments, "")[arguments.index(word) + 1]
    return option in _OUTPUTS and not value.startswith("-") and bool(value) and not os.path.exists(value)


def _without_lines(environ: Mapping[str, str], report_path: Path) -> dict[str, str]:
    """`environ`; if the process writes a report of its own to the folder of --report, that has no lines of the source either."""
    directory = read_settings({**os.environ, **environ}).engine.directory
    if directory is None or not _same(directory, report_path):
        return dict(environ)
    stated = json.loads(os.environ[VARIABLE])  # it has been read before, so it is right
    return {**environ, VARIABLE: json.dumps({**stated, "autoReport.outputDebugInfo": "false"})}


def split_words(words: Sequence[str], take_a_value: Sequence[str] = TAKE_A_VALUE) -> tuple[list[str], list[str]]:
    """(options of ours, the program and all that follows it). Args: take_a_value: options whose value may be the next word."""
    index = 0
    while index < len(words):
        word = words[index]
        if word in take_a_value:
            index += 2
        elif word in ("-", "--") or not word.startswith("-") or word[:2] in ("-m", "-c"):
            break
        else:
            index += 1
    return list(words[:index]), list(words[index:])


def read_program(words: list[str], usage: str) -> Program:
    """The program that stands behind the options. Raises: UsageError if there is none; it ends with `usage` if no word is left."""
    if words[:1] == ["--"]:
        kind, words = "SCRIPT", words[1:]
    else:
        kind = words[0][:2] if words and words[0][:2] in ("-m", "-c") else "SCRIPT"
        if kind != "SCRIPT":
            words = [words[0][2:], *words[1:]] if words[0] != kind else words[1:]
    if not words:
        missing = "SCRIPT, -m MODULE or -c CODE must say what to run" if kind == "SCRIPT" else f"{kind} must be followed by what to run"
        raise UsageError(f"{missing}\nusage: {usage}")
    first, rest = words[0], tuple(words[1:])
    match kind:
        case "-m":
            return _module(first, rest)
        case "-c":
            return CodeProgram(code=first, arguments=rest)
        case _:
            return InputProgram(arguments=rest) if first == "-" else _script(first, rest)


def _module(name: str, arguments: tuple[str, ...]) -> ModuleProgram:
    program = ModuleProgram(name=name, arguments=arguments)
    top = name.partition(".")[0]
    with program.on_path():
        try:
            found = importlib.util.find_spec(top) is not None
        except (ImportError, ValueError):
            found = False
    if not found:
        raise UsageError(
            f"there is no module {shown(top)} in {plain(working_directory())} or on Python's path; to run a file, give it without -m"
        )
    return program


def _script(name: str, arguments: tuple[str, ...]) -> ScriptProgram:
    path = Path(name)
    try:
        if path.is_dir() and not (path / "__main__.py").is_file():
            raise UsageError(f"directory {shown(name)} has no __main__.py; name the file to run")
        if not path.exists():
            raise UsageError(f"there is no file {shown(name)} in {plain(working_directory())}")
        if path.is_file() and not os.access(path, os.R_OK):
            raise UsageError(f"file {shown(name)} cannot be read")
    except OSError as error:
        raise UsageError(f"file {shown(name)} cannot be read: {error.strerror}") from error
    return ScriptProgram(name=name, arguments=arguments)


def environ_of(args: argparse.Namespace, base: Mapping[str, str]) -> dict[str, str]:
    """Environment variables for the options, with absolute paths; checked by reading them back, over those of `base`.

    Raises: UsageError for an option or a variable with a bad value.
    """
    environ = {"JAX_PLATFORMS": _PLATFORMS}
    if args.machine is not None:
        try:
            load_machine(args.machine, num_ipus=args.ipus, num_tiles=args.tiles, sync_pattern=args.sync_pattern)
        except SpecError as error:
            raise UsageError(f"--machine: {error}") from error
        environ["TILESTEP_MACHINE"] = args.machine if args.machine in machine_names() else str(Path(args.machine).resolve())
    if args.ipus is not None:
        environ["JAX_IPU_DEVICE_COUNT"] = str(args.ipus)
    if args.tiles is not None:
        environ["JAX_IPU_MODEL_NUM_TILES"] = str(args.tiles)
    if args.sync_pattern is not None:
        environ["TILESTEP_SYNC_PATTERN"] = args.sync_pattern
    if args.simulated_ipus is not None:
        environ["TILESTEP_SIMULATED_IPUS"] = str(args.simulated_ipus)
    try:
        require_report_directory(read_settings({**base, **environ}).engine.directory)
    except SettingsError as error:
        raise UsageError(str(error)) from error
    return environ


def output_paths(args: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """Where --json and --report say to write, as absolute paths. Raises: UsageError for one that cannot be written to."""
    json_path, report_path = (None if path is None else _absolute(path) for path in (args.json, args.report))
    if json_path is not None:
        try:
            require_writable(json_path)
        except OSError as error:
            raise UsageError(
                f"--json {plain(args.json)}: {error.strerror}; name a file in a directory that exists and can be written to"
            ) from error
    if report_path is not None:
        try:
            writable_directory(report_path)
        except OSError as error:
            raise UsageError(f"--report {plain(args.report)}: {error.strerror}; name a directory that can be written to") from error
    if json_path is not None and report_path is not None:
        if _same(json_path, report_path):
            raise UsageError(f"--json {plain(args.json)} is the directory of --report: name a file")
        own = next((name for name in (*REPORT_FILES, RUN_FILE, PAGE_FILE) if _same(json_path, report_path / name)), None)
        if own is not None:
            raise UsageError(f"--json {plain(args.json)} and --report {plain(args.report)} would both write {own} there: name another file")
    return json_path, report_path


def _same(one: Path, other: Path) -> bool:
    """Whether two paths are one file, by whatever links; a file need not exist."""
    return os.path.realpath(one) == os.path.realpath(other)


def _absolute(path: Path) -> Path:
    return path if path.is_absolute() else working_directory() / path


def choose_platform() -> None:
    """Says it to JAX as well, which has read its variables already."""
    import jax

    config: Any = jax.config  # its update has no types
    config.update("jax_platforms", _PLATFORMS)


def _show(recording: Recording, stderr: TextIO | None, *, all_findings: bool) -> None:
    if stderr is None or stderr.closed:
        return
    terminal = stderr.isatty()
    width = max(shutil.get_terminal_size((_PIPE_WIDTH, 0)).columns, 60) if terminal else _PIPE_WIDTH
    try:
        text = recording.profile.summary(width=width, color=terminal and "NO_COLOR" not in os.environ, all=all_findings)
        print(f"\n{text}", file=stderr, flush=True)
    except OSError:  # nobody reads it any more
        discard(stderr)
