"""Every machine that has a name: each number has a source, and together they give the published totals."""

import dataclasses
import re

import pytest

from tests.together import each
from tilestep.errors import SpecError
from tilestep.machine import FieldSource, MachineSpec, describe, load_machine, machine_names
from tilestep.machine.assemble import FIELD_KINDS, assemble, value_of
from tilestep.machine.fields import QUANTITIES, Value
from tilestep.machine.sources import figures

NAMES = machine_names()


def scalar_paths(owner: object, prefix: str = "") -> set[str]:
    """Paths of the numbers and names in a nested spec, found without the code under test."""
    found: set[str] = set()
    for spec_field in dataclasses.fields(owner):  # type: ignore[arg-type]
        value = getattr(owner, spec_field.name)
        if dataclasses.is_dataclass(value):
            found |= scalar_paths(value, f"{prefix}{spec_field.name}.")
        elif isinstance(value, int | float | str):
            found.add(prefix + spec_field.name)
    return found - {"name", "description"}


def test_the_catalogue_has_every_machine() -> None:
    pods = [f"{family}-pod{size}" for family in ("m2000", "bow") for size in (4, 16, 64, 128, 256)]
    assert sorted(NAMES) == sorted(["c2-card", "m2000", "bow-2000", "c600", *pods])


@each("name", NAMES)
def test_every_field_has_an_entry_that_gives_the_value_in_use(name: str) -> None:
    machine = load_machine(name)
    entries = {entry.path: entry for entry in machine.sources}
    assert set(entries) == scalar_paths(machine)
    assert len(entries) == len(machine.sources)
    for path, entry in entries.items():
        assert (entry.value, entry.unit) == (value_of(machine, path), QUANTITIES[path].unit), path


@each("name", NAMES)
def test_every_entry_says_where_its_value_comes_from(name: str) -> None:
    for entry in load_machine(name).sources:
        assert entry.basis in ("documented", "measured", "derived", "assumed"), entry.path
        assert len(entry.source) >= 20, f"{entry.path}: '{entry.source}' names no public source"
        assert not re.search(r"/work|\.\./|\.csv\b(?<!exchange-vs-compute\.csv)|recalled", entry.source), entry.path


@each("name", NAMES)
def test_every_value_of_the_catalogue_is_within_the_range_asked_of_users(name: str) -> None:
    for entry in load_machine(name).sources:
        quantity = QUANTITIES[entry.path]
        if isinstance(entry.value, str):
            assert not quantity.choices or entry.value in quantity.choices, entry.path
        else:
            assert quantity.lowest <= entry.value <= quantity.highest, entry.path


def test_units_are_known_for_exactly_the_fields_there_are() -> None:
    assert set(QUANTITIES) == set(FIELD_KINDS) == scalar_paths(load_machine("bow-2000"))


@pytest.mark.parametrize(
    ("name", "fp16_tflops", "fp32_tflops", "tolerance"),
    [  # of one IPU, from the datasheets
        ("c2-card", 124.5, 31.1, 0.005),
        ("m2000", 249.75, 62.4, 0.005),
        ("bow-2000", 348.5, 87.25, 0.005),
        ("c600", 280, 70, 0.015),  # sold in round numbers
    ],
)
def test_peak_rates_are_the_published_ones(name: str, fp16_tflops: float, fp32_tflops: float, tolerance: float) -> None:
    ipu = load_machine(name).ipu
    tera_macs = ipu.num_tiles * ipu.clock_hz / 1e12
    assert 2 * ipu.macs_per_cycle_half * tera_macs == pytest.approx(fp16_tflops, rel=tolerance)
    assert 2 * ipu.macs_per_cycle_float * tera_macs == pytest.approx(fp32_tflops, rel=tolerance)
    assert ipu.macs_per_cycle_half_float <= ipu.macs_per_cycle_half


def test_only_the_c600_has_units_for_8_bit_floats() -> None:
    assert [name for name in NAMES if load_machine(name).ipu.has_float8] == ["c600"]
    ipu = load_machine("c600").ipu
    assert 2 * ipu.macs_per_cycle_float8 * ipu.num_tiles * ipu.clock_hz / 1e12 == pytest.approx(560, rel=0.015)


@pytest.mark.parametrize(
    ("name", "sram_mib", "sram_tbytes_per_s", "exchange_tbytes_per_s"),
    [("c2-card", 304, 45, 8), ("m2000", 897, 45, 7.8), ("bow-2000", 897, 65.25, 10.9)],
)
def test_memory_and_exchange_of_an_ipu_are_the_published_ones(
    name: str, sram_mib: float, sram_tbytes_per_s: float, exchange_tbytes_per_s: float
) -> None:
    ipu = load_machine(name).ipu
    tera_tile_cycles = ipu.num_tiles * ipu.clock_hz / 1e12
    assert ipu.sram_bytes / 2**20 == pytest.approx(sram_mib, rel=0.001)
    assert ipu.tile.load_store_bytes_per_cycle * tera_tile_cycles == pytest.approx(sram_tbytes_per_s, rel=0.05)
    assert ipu.tile.exchange_bytes_per_cycle * tera_tile_cycles == pytest.approx(exchange_tbytes_per_s, rel=0.03)


def test_pods_are_so_many_of_one_machine() -> None:
    for family, one in (("m2000-pod", "m2000"), ("bow-pod", "bow-2000")):
        for num_ipus in (4, 16, 64, 128, 256):
            pod = load_machine(f"{family}{num_ipus}")
            assert (pod.num_ipus, pod.num_machines) == (num_ipus, num_ipus // 4)
            assert (pod.ipu, pod.link, pod.host) == (load_machine(one).ipu, load_machine(one).link, load_machine(one).host)
    assert [load_machine(f"m2000-pod{size}").description for size in (4, 64, 128)] == [
        "IPU-POD4: one IPU-Machine",
        "IPU-POD64: 16 IPU-Machines",
        "IPU-POD128: 32 IPU-Machines in 2 racks",
    ]


def test_a_value_changed_in_code_is_described_as_assumed() -> None:
    machine = load_machine("bow-2000")
    changed = dataclasses.replace(machine, ipu=dataclasses.replace(machine.ipu, sync_cycles=64))
    before, after = (({entry.path: entry for entry in describe(one)}) for one in (machine, changed))
    assert [path for path in before if before[path] != after[path]] == ["ipu.sync_cycles"]
    assert (after["ipu.sync_cycles"].value, after["ipu.sync_cycles"].basis) == (64, "assumed")
    assert before["ipu.sync_cycles"].basis == "documented"


def test_a_table_of_figures_refuses_a_path_twice_or_unknown() -> None:
    with pytest.raises(ValueError, match=r"two figures for ipu\.clock_hz"):
        figures(("ipu.clock_hz", 1e9, "assumed", "a"), ("ipu.clock_hz", 2e9, "assumed", "b"))
    with pytest.raises(KeyError, match=r"ipu\.clock"):
        figures(("ipu.clock", 1e9, "assumed", "a"))


def remade(machine: MachineSpec, **changes: FieldSource) -> MachineSpec:
    sources = {entry.path: entry for entry in machine.sources} | changes
    return assemble(name=machine.name, description=machine.description, sources=sources)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("num_ipus", 257, r"num_ipus is 257: it must be 1 to 256"),
        ("ipu.num_tiles", 0, r"ipu\.num_tiles is 0: it must be more than 0"),
        ("ipu.tile.executable_bytes", 700_000, r"executable_bytes is 700,000: it must be at most sram_bytes \(638,976\)"),
        ("ipus_per_machine", 5, r"ipus_per_rack is 64: it must be a multiple of ipus_per_machine \(5\)"),
        ("host.link_latency_seconds", -1e-6, r"link_latency_seconds is -1e-06: it must be 0 or more"),
        ("sync_pattern", "Full", r"sync_pattern is 'Full': it must be one of full, singlePipeline, replicaAndLadder"),
        ("link.topology", "ring", r"link\.topology is 'ring': it must be one of ladder, torus"),
        ("link.ipus_per_rack", 9, r"ipus_per_rack is 9: it must be even, two IPUs to a rung, for a torus"),
    ],
)
def test_what_is_no_machine_is_refused(path: str, value: Value, message: str) -> None:
    entry = FieldSource(path=path, value=value, unit="", source="a test", basis="assumed")
    with pytest.raises(SpecError, match=message):
        remade(load_machine("bow-2000"), **{path: entry})
