"""Machines by name with other counts, and machines described in TOML."""

import tomllib
from pathlib import Path

import pytest

from tests.documents import blocks
from tests.processes import ROOT
from tilestep.errors import SpecError
from tilestep.machine import FieldSource, describe, load_machine, machine_names

DOCUMENT = ROOT / "docs" / "reference" / "machines.md"


def written(folder: Path, text: str, name: str = "mine.toml") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def entry_of(machine_name: str, path: str, num_ipus: int | None = None, num_tiles: int | None = None) -> FieldSource:
    return {entry.path: entry for entry in describe(load_machine(machine_name, num_ipus=num_ipus, num_tiles=num_tiles))}[path]


def test_more_ipus_than_its_own_are_several_of_the_same_machine() -> None:
    own, eight = load_machine("bow-2000"), load_machine("bow-2000", num_ipus=8)
    assert (own.num_machines, eight.num_machines) == (1, 2)
    assert (eight.num_ipus, eight.ipus_per_machine, eight.ipu, eight.host) == (8, 4, own.ipu, own.host)
    assert load_machine("c600", num_ipus=3).num_machines == 3
    assert load_machine("c2-card", num_ipus=3).num_machines == 2


def test_counts_that_were_asked_for_are_described_as_such() -> None:
    assert entry_of("bow-2000", "num_ipus", num_ipus=8).source == "asked for: num_ipus=8"
    assert entry_of("bow-2000", "ipu.num_tiles", num_tiles=8).basis == "assumed"
    assert entry_of("bow-2000", "ipu.num_tiles", num_ipus=8).basis == "documented"


@pytest.mark.parametrize("num_ipus", [0, 257, -1])
def test_a_count_of_ipus_beyond_the_bounds_is_refused(num_ipus: int) -> None:
    with pytest.raises(SpecError, match=rf"bow-2000.*num_ipus is {num_ipus}: it must be 1 to 256"):
        load_machine("bow-2000", num_ipus=num_ipus)


def test_a_count_of_tiles_below_one_is_refused() -> None:
    with pytest.raises(SpecError, match=r"ipu\.num_tiles is 0: it must be 1 to 100,000 tiles"):
        load_machine("bow-2000", num_tiles=0)


def test_a_file_gives_and_takes_units_for_8_bit_floats(tmp_path: Path) -> None:
    given = load_machine(written(tmp_path, 'inherits = "bow-2000"\n[ipu]\nmacs_per_cycle_float8 = 128\n'))
    taken = load_machine(written(tmp_path, 'inherits = "c600"\n[ipu]\nmacs_per_cycle_float8 = 0\n'))
    assert (given.ipu.has_float8, taken.ipu.has_float8) == (True, False)
    with pytest.raises(SpecError, match=r"ipu\.macs_per_cycle_float8 is -1: it must be 0 to 1,000,000 MAC/cycle/tile"):
        load_machine(written(tmp_path, 'inherits = "c600"\n[ipu]\nmacs_per_cycle_float8 = -1\n'))


def test_units_may_be_as_slow_as_one_product_a_cycle(tmp_path: Path) -> None:
    rates = "".join(f"macs_per_cycle_{kind} = {{count}}\n" for kind in ("half", "half_float", "float"))
    slow = load_machine(written(tmp_path, 'inherits = "bow-2000"\n[ipu]\n' + rates.format(count=1)))
    assert (slow.ipu.macs_per_cycle_half, slow.ipu.macs_per_cycle_half_float, slow.ipu.macs_per_cycle_float) == (1, 1, 1)
    with pytest.raises(SpecError, match=r"ipu\.macs_per_cycle_half is 0: it must be 1 to 1,000,000 MAC/cycle/tile"):
        load_machine(written(tmp_path, 'inherits = "bow-2000"\n[ipu]\n' + rates.format(count=0)))


def test_an_unknown_name_shows_the_nearest_and_all() -> None:
    with pytest.raises(SpecError, match=r"'bow2000' \(did you mean 'bow-2000'\?\)") as caught:
        load_machine("bow2000")
    assert all(name in str(caught.value) for name in machine_names())


def test_a_file_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        inherits = "bow-2000"
        description = "half the tiles"
        num_ipus = 2
        [ipu]
        num_tiles = 736
        clock_hz = 1_000_000_000
        [ipu.tile]
        sram_bytes = 1_000_000
        [link]
        bytes_per_second = 1e11
        [host]
        load_seconds = 0
        """,
    )
    machine, base = load_machine(path), load_machine("bow-2000")
    assert (machine.name, machine.description, machine.num_ipus) == ("mine", "half the tiles", 2)
    assert (machine.ipu.num_tiles, machine.ipu.clock_hz, machine.ipu.tile.sram_bytes) == (736, 1e9, 1_000_000)
    assert (machine.link.bytes_per_second, machine.host.load_seconds) == (1e11, 0)
    assert isinstance(machine.ipu.clock_hz, float)
    changed = {entry.path for entry, own in zip(describe(machine), describe(base), strict=True) if entry != own}
    assert changed == {"num_ipus", "ipu.num_tiles", "ipu.clock_hz", "ipu.tile.sram_bytes", "link.bytes_per_second", "host.load_seconds"}


def test_fields_that_a_file_changes_have_the_file_as_source(tmp_path: Path) -> None:
    path = written(tmp_path, 'inherits = "c600"\n[ipu]\nsync_cycles = 126\n')  # also where the value is the machine's own
    entry = entry_of(path, "ipu.sync_cycles")
    assert (entry.basis, entry.source, entry.value, entry.unit) == ("assumed", path, 126, "cycles")
    assert entry_of(path, "ipu.clock_hz").basis == "documented"


def test_counts_go_before_those_of_a_file(tmp_path: Path) -> None:
    path = written(tmp_path, 'inherits = "bow-2000"\nname = "small"\nnum_ipus = 2\n[ipu]\nnum_tiles = 16\n')
    machine = load_machine(path, num_ipus=3, num_tiles=4)
    assert (machine.name, machine.num_ipus, machine.ipu.num_tiles) == ("small", 3, 4)


def test_a_sync_pattern_is_asked_for_by_name() -> None:
    assert load_machine("bow-2000").sync_pattern == "full"
    assert load_machine("bow-2000", sync_pattern="singlePipeline").sync_pattern == "singlePipeline"
    with pytest.raises(SpecError, match=r"sync_pattern is 'single': it must be one of full, singlePipeline, replicaAndLadder"):
        load_machine("bow-2000", sync_pattern="single")


@pytest.mark.parametrize(
    ("name", "num_ipus", "pattern", "part", "message"),
    [
        (
            "bow-pod16",
            None,
            None,
            3,
            r"simulated_ipus is 3: it must divide the number of IPUs of bow-pod16 \(16\), and be a multiple of those that share",
        ),
        ("bow-pod16", None, None, 32, r"simulated_ipus is 32: it must divide the number of IPUs of bow-pod16"),
        ("bow-2000", None, None, 2, r"simulated_ipus is 2: .* that share a host link or a rung \(4\)"),
        ("c600", 8, "replicaAndLadder", 1, r"simulated_ipus is 1: .* that share a host link or a rung \(2\)"),
        ("bow-pod16", None, None, -4, r"simulated_ipus is -4: it must be"),
    ],
)
def test_a_part_that_does_not_stand_for_the_whole_is_refused(
    name: str, num_ipus: int | None, pattern: str | None, part: int, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        load_machine(name, num_ipus=num_ipus, sync_pattern=pattern, simulated_ipus=part)


def test_a_part_of_the_ipus_may_be_simulated() -> None:
    assert load_machine("bow-pod16").num_simulated == 16
    assert [load_machine("bow-pod16", simulated_ipus=part).num_simulated for part in (0, 4, 8, 16)] == [16, 4, 8, 16]
    assert load_machine("c600", num_ipus=8, simulated_ipus=1).num_simulated == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('sync_pattern = "Full"', r"sync_pattern is 'Full': it must be one of full, singlePipeline, replicaAndLadder"),
        ("sync_pattern = 1", r"sync_pattern is 1: it must be a string"),
        ('[link]\ntopology = "mesh"', r"link\.topology is 'mesh': it must be one of ladder, torus"),
    ],
)
def test_a_word_that_is_none_of_a_field_s_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_machine(written(tmp_path, f'inherits = "bow-2000"\n{text}\n'))


def test_a_file_without_the_suffix_is_known_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, 'inherits = "c600"\n', name="machine")
    assert load_machine(path).ipu == load_machine("c600").ipu
    monkeypatch.chdir(tmp_path)
    assert load_machine("machine").name == "machine"


def test_a_name_of_the_catalogue_goes_before_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, 'inherits = "c600"\n', name="bow-2000")
    monkeypatch.chdir(tmp_path)
    assert load_machine("bow-2000").num_ipus == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[ipu]\nnum_tiles = 4\n", r'it must say which named machine it starts from, as inherits = "bow-2000"'),
        ('inherits = "bow2000"', r"no machine is called 'bow2000' \(did you mean 'bow-2000'\?\)"),
        (
            'inherits = "other.toml"',
            r"inherits is 'other.toml', .*: it must be one of .*bow-2000.*; a file cannot start from another file$",
        ),
        ('inherits = "bow-2000"\n[link]\nipus_per_rack = 66', r": link\.ipus_per_rack is 66: it must be a multiple of ipus_per_machine"),
        ("inherits = 4", r"inherits is 4: it must be a string"),
        ('inherits = "c600"\n[ipu]\nclock_ghz = 1.5', r"'ipu\.clock_ghz' is no field of a machine; did you mean 'ipu\.clock_hz'\?"),
        ('inherit = "c600"\ninherits = "c600"', r"'inherit' is no field of a machine; did you mean 'inherits'\?"),
        ('inherits = "c600"\nipu = 4', r"ipu is 4: it must be a table, \[ipu\]"),
        ('inherits = "c600"\n[ipu]\nnum_tiles = 4.0', r"ipu\.num_tiles is 4\.0: it must be a whole number in tiles"),
        ('inherits = "c600"\n[ipu]\nnum_tiles = true', r"ipu\.num_tiles is True: it must be a whole number in tiles"),
        ('inherits = "c600"\n[ipu]\nclock_hz = "1.5 GHz"', r"ipu\.clock_hz is '1\.5 GHz': it must be a number in Hz"),
        ('inherits = "c600"\n[ipu]\nclock_hz = nan', r"ipu\.clock_hz is nan: it must be"),
        ('inherits = "c600"\n[ipu]\nversion = ""', r"ipu\.version is empty"),
        (
            'inherits = "c600"\n[ipu.tile]\nsram_bytes = 65536',
            r": ipu\.tile\.executable_bytes is 212,992: it must be at most sram_bytes \(65,536\)",
        ),
        ('inherits = "c600"\nnum_ipus = 257', r"num_ipus is 257: it must be 1 to 256 IPUs"),
        ("inherits = ", r"this is no TOML"),
        ('inherits = "c600"\nname = ""', r"name is empty"),
    ],
)
def test_a_wrong_file_is_named_with_field_value_and_bound(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SpecError, match=message) as caught:
        load_machine(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.toml: the machine's description cannot be read: No such file"):
        load_machine(str(tmp_path / "none.toml"))
    with pytest.raises(SpecError, match=r"cannot be read: Is a directory"):
        load_machine(f"{tmp_path}/")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match=r"bytes\.toml: this is no TOML"):
        load_machine(str(tmp_path / "bytes.toml"))


def test_a_name_that_no_file_can_have_is_no_machine() -> None:
    with pytest.raises(SpecError, match="no machine is called 'aaa"):
        load_machine("a" * 5000)


def test_the_example_of_the_documentation_is_the_machine_it_describes(tmp_path: Path) -> None:
    (example,) = [block.text for block in blocks(DOCUMENT.read_text(encoding="utf-8")) if block.language == "toml"]
    machine, base = load_machine(written(tmp_path, example)), load_machine("bow-2000")
    stated = tomllib.loads(example)
    assert machine.num_ipus == stated["num_ipus"] == 16
    assert machine.ipu.tile.sram_bytes == stated["ipu"]["tile"]["sram_bytes"] == 2 * base.ipu.tile.sram_bytes
    assert machine.link.bytes_per_second == stated["link"]["bytes_per_second"] > base.link.bytes_per_second
    assert machine.ipu.clock_hz == base.ipu.clock_hz


def test_a_byte_order_mark_before_the_text_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "marked.toml"
    path.write_text('inherits = "bow-2000"\nnum_ipus = 2\n', encoding="utf-8-sig")
    assert load_machine(str(path)).num_ipus == 2
