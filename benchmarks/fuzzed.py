"""What does each reader of a file or a setting do with a hundred thousand damaged ones?

    benchmarks/fuzzed.py                                      all formats, a line for each
    benchmarks/fuzzed.py --only hlo --only toml --count 1000
    benchmarks/fuzzed.py --nice 15 --json benchmarks/results/fuzzing.json

Each input is a sound one with some edits: bits that differ, parts that are dropped, repeated or from another input, words of the
format, and numbers that are odd. A reader may take it, or refuse it by the error that its format is documented to have. It is a fault
if it ends in another error, in a message that a terminal would obey, or that says nothing or pages; if it opens a file outside of its
folder, starts a process, connects, or unpickles; if it takes 5 s of a CPU, or waits; or if the process comes to take 1 GB. Equal
seeds make equal inputs. A format has a process of its own. `--keep` names a folder for inputs with faults. `--atheris` lets atheris,
where it is installed, choose the inputs by what they reach.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import json
import os
import random
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package


from benchmarks.commit import commit
from benchmarks.fuzzed_formats import Format, Read, formats

ROOT: Final = Path(__file__).resolve().parents[1]
COUNT: Final = 100_000
MOST_CPU_S: Final = 5.0
HUNG_WALL_S: Final = 300.0  # of a hundred inputs, on a busy machine
MOST_BYTES: Final = 1 << 30
LONGEST: Final = 12_000  # characters of a message


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A change of an input. Attributes: kind: 0 to 6. at: where, of 2**16. size: of what is changed. payload: what comes there."""

    kind: int
    at: int
    size: int
    payload: bytes


KINDS: Final = 7
HOSTILE: Final = (
    *(bytes([byte]) for byte in b"\0\xff\r\n\"'\\{}[](),:="),
    *(b"\x1b[31m", b"\\u001b", b"\\ud800", b"\xe2\x80\xae", b"\xed\xa0\x80"),  # what a terminal would obey, and no text
    *(b"../", b"/etc/passwd", b"__reduce__", b"%s", b"NaN", b"-1", b"1e400", b"true", b"null"),
    *(b"9" * 400, b"9" * 5000, b"[" * 5000, b"{" * 5000, b"(" * 5000, b"a" * 2000),
)
NUMBERS: Final = (
    *(b"", b"0", b"-1", b"1", b"2", b"127", b"2147483648", b"9223372036854775807", b"18446744073709551616"),
    *(b"9" * 400, b"9" * 5000, b"1e5", b"0x7", b"1_0", b"\xc2\xb2"),
)
_NUMBER: Final = re.compile(rb"\d+")


def edited(data: bytes, others: Sequence[bytes], edits: Sequence[Edit]) -> bytes:
    """An input with changes. Args: others: of which parts may come."""
    for edit in edits:
        at = edit.at * len(data) >> 16
        if edit.kind == 0 and data:  # a bit
            data = data[:at] + bytes([data[at] ^ (1 << edit.size % 8)]) + data[at + 1 :]
        elif edit.kind == 1:  # something comes in
            data = data[:at] + edit.payload + data[at:]
        elif edit.kind == 2:  # something goes
            data = data[:at] + data[at + edit.size :]
        elif edit.kind == 3:  # something comes again
            data = data[: at + edit.size] + data[at : at + edit.size] * (edit.size % 5 + 1) + data[at + edit.size :]
        elif edit.kind == 4:  # part of another
            other = others[edit.size % len(others)]
            there = edit.at * len(other) >> 16
            data = data[:at] + other[there : there + 4 * edit.size] + data[at + edit.size :]
        elif edit.kind == 5 and (found := _NUMBER.search(data, at)):  # another number
            data = data[: found.start()] + edit.payload + data[found.end() :]
        elif edit.kind == 6:  # the end
            data = data[:at]
    return data


def random_edits(rng: random.Random, words: Sequence[bytes]) -> list[Edit]:
    """Some edits, mostly few."""

    def edit() -> Edit:
        kind = rng.choice((0, 0, 1, 1, 1, 2, 3, 4, 5, 5, 5)) if rng.random() < 0.97 else 6
        payload = rng.choice(NUMBERS) if kind == 5 else rng.choice(HOSTILE) if rng.random() < 0.4 else rng.choice(words)
        return Edit(kind=kind, at=rng.randrange(1 << 16), size=rng.choice((1, 1, 2, 4, 9, 40, 300)), payload=payload)

    return [edit() for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6)))]


def inputs(kind: Format, seed: int, count: int) -> Iterator[bytes]:
    """Damaged inputs. Equal seeds make equal ones."""
    rng, seeds = random.Random(seed), kind.seeds()
    for _ in range(count):
        yield edited(rng.choice(seeds), seeds, random_edits(rng, kind.words))


@final
class Heard:
    """What this process opens and does beside reading in a folder and importing."""

    _FORBIDDEN: Final = (
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "socket.connect",
        "pickle.find_class",
        "ctypes.dlopen",
    )
    _LIBRARIES: Final = tuple({os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, ROOT)})

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = os.path.realpath(folder) if folder else ""  # inside of which files may be opened; "": anywhere
        self.listening = False
        self.wrong: list[str] = []

    def listen(self) -> Heard:
        """Hears what happens from now on, until the process ends."""
        sys.addaudithook(self._hear)
        return self

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.listening:
            return
        if event in self._FORBIDDEN:
            self.wrong.append(f"{event} {arguments!r}"[:200])
        elif event == "open" and self._folder and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.fsdecode(arguments[0])
            if not os.path.realpath(path).startswith((self._folder, *self._LIBRARIES)) and not path.startswith(("/proc/", "/dev/null")):
                self.wrong.append(f"opened {path!r}"[:200])


def fault_of(kind: Format, read: Read, data: bytes, ears: Heard | None = None) -> tuple[str, str]:
    """(what is wrong, the error by which it was refused); either may be ''. Args: ears: what else the process does counts, too."""
    ears = ears or Heard()
    ears.listening = True
    try:
        read(data)
        refused = ""
    except kind.errors as error:
        told, refused = str(error), type(error).__name__
        if not all(character.isprintable() or character in "\n\t" for character in told):
            return f"a terminal would obey the message {told[:300]!r}", refused
        if not 5 < len(told) < LONGEST:
            return f"a message of {len(told):,} characters: {told[:300]!r}", refused
    except BaseException as error:
        return f"{type(error).__name__}: {''.join(traceback.format_exception(error)[-4:])[-1500:]}", ""
    finally:
        ears.listening = False
        wrong, ears.wrong = ears.wrong, []
    return "; ".join(wrong), refused


def peak_bytes() -> int:
    """Of this process's resident memory. `getrusage` has that of the process that started it, too."""
    return int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))[0]) << 10


def run(name: str, seed: int, count: int, keep: Path | None, most_wall_s: float, answers: Any) -> None:
    """Reads damaged inputs of a format, in a process of its own; puts the answer in a queue."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    warnings.simplefilter("error", DeprecationWarning)
    kind = formats()[name]
    ends: collections.Counter[str] = collections.Counter()
    faults: dict[str, str] = {}
    longest = 0.0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as made:
        folder = Path(made)
        read = kind.reader(folder)
        ears = Heard(None if kind.opens_any else folder).listen()
        for data in kind.seeds():
            assert fault_of(kind, read, data, ears) == ("", ""), f"a sound input of {name} is refused"
        before = peak_bytes()
        for number, data in enumerate(inputs(kind, seed, count)):
            if time.monotonic() - begin > most_wall_s:
                break
            if number % 100 == 0:  # a hang ends the process with a picture of its stack
                faulthandler.dump_traceback_later(HUNG_WALL_S, exit=True)
            start = time.process_time()
            wrong, refused = fault_of(kind, read, data, ears)
            took = time.process_time() - start
            longest = max(longest, took)
            wrong = wrong or (f"took {took:.1f} s" if took > MOST_CPU_S else "")
            ends["fault" if wrong else refused or "accepted"] += 1
            if wrong:
                known = re.sub(r"\d+|'.*?'", "", wrong)[-160:]
                if keep is not None and known not in faults:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{name.replace(' ', '_')}.{len(faults)}").write_bytes(data)
                faults.setdefault(known, f"input {number} of seed {seed}: {wrong}")
        faulthandler.cancel_dump_traceback_later()
        peak = peak_bytes()
    if peak > MOST_BYTES:
        faults["memory"] = f"the process came to take {peak:,} B"
    accepted = ends.pop("accepted", 0)
    answers.put(
        {
            "name": name,
            "seed": seed,
            "inputs": accepted + sum(ends.values()),
            "accepted": accepted,
            "refused": sum(value for key, value in ends.items() if key != "fault"),
            "faults": ends["fault"] + ("memory" in faults),
            "errors": dict(ends),
            "longest_cpu_s": round(longest, 4),
            "grown_bytes": peak - before,
            "peak_bytes": peak,
            "wall_s": round(time.monotonic() - begin, 1),
            "told": list(faults.values()),
        }
    )


def with_atheris(name: str, seconds: int) -> None:
    """Inputs that reach new lines, found by atheris. Ends the process."""
    import atheris  # type: ignore[import-not-found]

    with atheris.instrument_imports(include=["tilestep"]), tempfile.TemporaryDirectory() as made:
        kind, folder = formats()[name], Path(made)
        read = kind.reader(folder)
        (corpus := folder / "corpus").mkdir()
        for number, data in enumerate(kind.seeds()):
            (corpus / str(number)).write_bytes(data)

        def one(data: bytes) -> None:
            wrong, _ = fault_of(kind, read, data)
            if wrong:
                raise AssertionError(wrong)

        atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", "-max_len=20000", "-timeout=5", str(corpus)], one)
        atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(formats()), help="a format; may be given again")
    parser.add_argument("--count", type=int, default=COUNT, help="inputs of a format (default: %(default)s)")
    parser.add_argument("--most-wall-s", type=float, default=1e9, help="of a format, after which it has fewer inputs")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (default: %(default)s)")
    parser.add_argument("--nice", type=int, default=0, help="how far to stand back behind other processes")
    parser.add_argument("--keep", type=Path, help="a folder for inputs with faults")
    parser.add_argument("--json", type=Path, help="the record, to which answers are added")
    parser.add_argument("--atheris", type=int, metavar="S", help="let atheris find inputs of one format for so many seconds")
    flags = parser.parse_args()
    os.nice(flags.nice)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if flags.atheris is not None:
        with_atheris((flags.only or ["hlo"])[0], flags.atheris)
    failed = False
    spawn = get_context("spawn")
    for name in flags.only or formats():
        answers = spawn.Queue()
        process = spawn.Process(target=run, args=(name, flags.seed, flags.count, flags.keep, flags.most_wall_s, answers))
        process.start()
        answer = None
        while answer is None and (process.is_alive() or not answers.empty()):
            with contextlib.suppress(Exception):
                answer = answers.get(timeout=1)
        process.join()
        if answer is None:
            answer = {"name": name, "seed": flags.seed, "faults": 1, "told": [f"the process ended with status {process.exitcode}"]}
        failed |= bool(answer["faults"])
        told = answer.pop("told")
        print(json.dumps(answer), *told, sep="\n  ", flush=True)
        if flags.json is not None:
            record = json.loads(flags.json.read_text(encoding="utf-8")) if flags.json.exists() else {"answers": []}
            record |= {
                "question": __doc__.splitlines()[0],
                "commit": commit(),
                "host": {"cpus": os.cpu_count(), "load": os.getloadavg()[0]},
            }
            record["answers"] = [each for each in record["answers"] if each["name"] != name] + [answer]
            flags.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    sys.exit(failed)


if __name__ == "__main__":
    main()
