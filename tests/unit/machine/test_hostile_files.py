"""A machine's file may be anything: what is no machine is an error on one line that names the file, soon, and nothing is waited for."""

import os
from pathlib import Path

import pytest

from tilestep.errors import SpecError
from tilestep.machine import MachineSpec, describe, load_machine

INHERITS = 'inherits = "bow-2000"\n'


LONGEST = 1500  # characters of a message

BOUNDED = {  # text of a file: what the message says
    "a whole number of 400 digits": ("num_ipus = " + "9" * 400, r"num_ipus is a whole number of 1,329 bits: it must be 1 to 256 IPUs"),
    "a rate of 400 digits": ("[ipu]\nclock_hz = " + "9" * 400, r"ipu\.clock_hz is a whole number of 1,329 bits: it must be"),
    "a number of 5,000 digits": ("[ipu]\nnum_tiles = " + "9" * 5000, r"line 3: num_tiles has more than 1,000 digits"),
    "a number of 5,000 hexadecimal digits": ("num_ipus = 0x" + "f" * 5000, r"line 2: num_ipus has more than 1,000 digits"),
    "deep arrays": ("num_ipus = " + "[" * 5000, r"nested too deep"),
    "deep tables": ("a = " + "{a = " * 5000, r"nested too deep"),
    "50,000 parts": (".".join(["a"] * 50_000) + " = 1", r"line 2: a key has more than 32 parts"),
    "50,000 quoted parts": (".".join(['"a"'] * 50_000) + " = 1", r"line 2: a key has more than 32 parts"),
    "parts after a string": (
        'x = {a = """q"""", ' + "b." * 50_000 + "b = 1}",
        r"line 2: a key has more than 32 parts",
    ),
    "parts in a table's name": ("[" + ".".join(["a"] * 50_000) + "]", r"line 2: a key has more than 32 parts"),
    "many keys": ("".join(f"a{i} = 1\n" for i in range(50_000)), r"keys and values have 388,899 characters beside strings"),
    "a long name": ('name = "' + "x" * 10**6 + '"', r"name is 'xxx.*xxx': it must be one line of at most 1,000 characters"),
    "a long key": ("x" * 900 + " = 1", r"'xxx.*xxx' is no field of a machine \("),
}
CONTROLS = (r"\u0000", r"\u001b[31m", r"\n", r"\r", r"\u009b", r"\u202e", r"\u2028")


def machine_of(path: Path, text: str | bytes) -> MachineSpec:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_machine(str(path))


@pytest.mark.parametrize("what", BOUNDED)
def test_what_is_too_large_or_too_deep_is_refused_with_its_place(what: str, tmp_path: Path) -> None:
    text, message = BOUNDED[what]
    with pytest.raises(SpecError, match=message) as caught:
        machine_of(tmp_path / "mine.toml", INHERITS + text)
    assert str(caught.value).startswith(f"{tmp_path}/mine.toml: ")
    assert len(str(caught.value)) < LONGEST


def test_a_name_of_a_thousand_characters_is_read(tmp_path: Path) -> None:
    assert machine_of(tmp_path / "mine.toml", f'{INHERITS}name = "{"x" * 1000}"').name == "x" * 1000


def test_a_file_of_more_than_a_mebibyte_is_refused_by_its_size(tmp_path: Path) -> None:
    machine_of(tmp_path / "mine.toml", INHERITS.ljust(2**20, "\n"))
    with pytest.raises(SpecError, match=r"mine\.toml: the machine's description cannot be read: It is larger than 1,048,576 B"):
        machine_of(tmp_path / "mine.toml", INHERITS.ljust(2**20 + 1, "\n"))


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "{folder}/fifo", "{folder}/fifo.toml", "fifo", "fifo.toml"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for fifo in ("fifo", "fifo.toml"):
        os.mkfifo(fifo)
    with pytest.raises(SpecError, match="the machine's description cannot be read: It is no regular file"):
        load_machine(name.format(folder=tmp_path))


@pytest.mark.parametrize("name", ["a\0b.toml", "\ud800.toml", "a\0b", "a" * 5000 + ".toml", "", "a/" * 5000, "\x1b[31m", "\x1b.toml"])
def test_a_name_that_is_no_file_s_is_an_error_that_can_be_printed(name: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_machine(name)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < LONGEST


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("key", ["name", "description", "ipu.version", "ipu.generation", "link.topology"])
def test_a_text_that_cannot_be_printed_is_refused(key: str, control: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=f"mine.toml: {key} is 'a.*b': it must be ") as caught:
        machine_of(tmp_path / "mine.toml", f'{INHERITS}{key} = "a{control}b"')
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("control", CONTROLS)
def test_a_key_that_cannot_be_printed_is_escaped(control: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is no field of a machine") as caught:
        machine_of(tmp_path / "mine.toml", f'{INHERITS}"a{control}b" = 1')
    assert str(caught.value).isprintable()


def test_a_file_s_own_name_is_escaped_where_it_becomes_the_machine_s(tmp_path: Path) -> None:
    machine = machine_of(tmp_path / "a\x1b\udcff.toml", INHERITS + "num_ipus = 2\n")
    assert machine.name == r"a\x1b\udcff"
    assert all(entry.source.isprintable() for entry in describe(machine))
    assert machine.description.isprintable()


def test_dots_in_strings_and_comments_are_no_keys(tmp_path: Path) -> None:
    dots = "." * 500
    text = f"# {dots}\n{INHERITS}name = \"{dots}\"\ndescription = '''{dots}'''  # {dots}\n"
    assert machine_of(tmp_path / "mine.toml", text).name == dots
