"""Devices: what can be acquired, what can be made, and the machine of each."""

import time
from typing import Any

import pytest

from tilestep.popart import enums
from tilestep.popart.devices.devices import DeviceManager
from tilestep.popart.exceptions import popart_exception, popart_runtime_error, poplar_exception

LADDER = enums.SyncPattern.ReplicaAndLadder
ON_DEMAND, NEVER = enums.DeviceConnectionType.OnDemand, enums.DeviceConnectionType.Never


@pytest.fixture
def manager() -> DeviceManager:
    return DeviceManager()


# --- The emulated system ---


def test_a_system_has_16_ipus_and_groups_of_them(manager: DeviceManager) -> None:
    counts = {size: [device.id for device in manager.enumerateDevices(numIpus=size)] for size in (1, 2, 4, 8, 16, 32, 3)}
    assert counts == {1: list(range(16)), 2: list(range(16, 24)), 4: [24, 25, 26, 27], 8: [28, 29], 16: [30], 32: [], 3: []}
    assert manager.enumerateDevices(numIpus=4)[1].driverIds == [4, 5, 6, 7]


def test_settings_say_how_many_ipus_there_are(manager: DeviceManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_IPU_DEVICE_COUNT", "2")
    assert [len(manager.enumerateDevices(numIpus=size)) for size in (1, 2, 4)] == [2, 1, 0]
    monkeypatch.delenv("JAX_IPU_DEVICE_COUNT")
    monkeypatch.setenv("TILESTEP_MACHINE", "m2000")
    device = manager.enumerateDevices(numIpus=4)[0]
    machine = device.machine()
    assert machine is not None
    assert (machine.name, machine.num_ipus, device.ipuVersion) == ("m2000", 4, "ipu2")


def test_an_acquired_device_has_its_ipus_for_itself(manager: DeviceManager) -> None:
    with manager.acquireAvailableDevice(16) as all_of_them:
        assert all_of_them.isAttached
        assert manager.tryAcquireAvailableDevice(1) is None
        with pytest.raises(
            popart_exception, match=r"^Failed to acquire device with 1 IPUs. Ensure that there are sufficient IPUs available"
        ):
            manager.acquireAvailableDevice(1)
        assert manager.tryAcquireDeviceById(3) is None
        with pytest.raises(popart_exception, match=r"^Failed to acquire device with id '3'"):
            manager.acquireDeviceById(3)
    with manager.acquireDeviceById(3) as one:
        assert (one.id, one.numIpus, one.driverIds) == (3, 1, [3])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.acquireAvailableDevice(3), popart_exception, "You have attempted to acquire 3 IPUs. .* must be a power of two"),
        (lambda m: m.acquireAvailableDevice(10**6), popart_exception, "You .* createIpuModelDevice takes any number up to 256"),
        (lambda m: m.acquireAvailableDevice(2.0), TypeError, r"numIpus must be a whole number, not 2.0 \(float\)"),
        (lambda m: m.acquireAvailableDevice(2, 4.0), TypeError, r"tilesPerIpu must be a whole number, not 4.0 \(float\)"),
        (lambda m: m.enumerateDevices(numIpus=2.0), TypeError, r"numIpus must be a whole number, not 2.0 \(float\)"),
        (lambda m: m.acquireAvailableDevice(connectionType=NEVER), popart_exception, "Trying to acquire a hardware device when .*Never"),
        (lambda m: m.acquireDeviceById(0, connectionType=NEVER), popart_exception, "Trying to acquire .* use createOfflineIPUDevice"),
        (lambda m: m.acquireDeviceById(999), poplar_exception, "No such device set id: '999'"),
        (lambda m: m.acquireAvailableDevice(1, tilesPerIpu=2000), poplar_exception, "tilesPerIpu is 2000"),
        (lambda m: m.acquireAvailableDevice(1, pattern="full"), TypeError, "pattern must be a member of SyncPattern, not 'full'"),
        (lambda m: m.enumerateDevices(deviceType=enums.DeviceType.Sim), popart_exception, "Devices of type sim cannot be listed"),
        (
            lambda m: m.enumerateDevices(LADDER, deviceType=enums.DeviceType.IpuModel),
            popart_exception,
            "Only SyncPattern::Full is supported by a device of type ipu-model",
        ),
        (lambda m: m.enumerateDevices("full", deviceType=enums.DeviceType.Cpu), TypeError, "pattern must be a member of SyncPattern"),
        (lambda m: m.setOnDemandAttachTimeout(-1), TypeError, "attachTimeout is -1: it must be a whole number of seconds, 0 or more"),
    ],
)
def test_what_cannot_be_acquired(manager: DeviceManager, call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}"):
        call(manager)


def test_on_demand_attaches_when_it_is_asked_to(manager: DeviceManager) -> None:
    device = manager.acquireAvailableDevice(1, connectionType=ON_DEMAND)
    assert (device.connectionType, device.isAttached, device.version) == (ON_DEMAND, False, "<unknown-ipu-unattached>")
    assert device.attach()
    assert device.version == "3.4.0"
    device.detach()
    assert not device.isAttached
    assert device.tryAttachUntilTimeout()
    device.detach()
    device.require_attached()
    assert device.isAttached


def test_on_demand_waits_as_long_as_it_was_told(manager: DeviceManager) -> None:
    manager.setOnDemandAttachTimeout(1)
    try:
        device = manager.acquireAvailableDevice(1, connectionType=ON_DEMAND)
    finally:
        manager.setOnDemandAttachTimeout(0)
    patient = manager.acquireDeviceById(device.id)
    begin = time.monotonic()
    assert not device.tryAttachUntilTimeout()
    assert time.monotonic() - begin >= 1
    impatient = manager.acquireAvailableDevice(1, connectionType=ON_DEMAND)
    with pytest.raises(popart_runtime_error, match=r"^Failed to attach to device"):
        impatient.require_attached()
    patient.detach()
    assert device.tryAttachUntilTimeout()


# --- Devices that are made ---


@pytest.mark.parametrize(
    ("options", "ipus", "tiles", "machine_name"),
    [
        ({}, 1, 4, "m2000"),
        ({"numIPUs": 3, "tilesPerIPU": 20}, 3, 20, "m2000"),
        ({"numIPUs": "2", "ipuVersion": "ipu21", "compileIPUCode": False}, 2, 4, "c600"),
        ({"ipuVersion": "ipu1", "tilesPerIPU": 1216}, 1, 1216, "c2-card"),
    ],
)
def test_a_model_has_any_number_of_ipus(manager: DeviceManager, options: dict[str, Any], ipus: int, tiles: int, machine_name: str) -> None:
    device = manager.createIpuModelDevice(options)
    machine = device.machine()
    assert machine is not None
    assert (machine.num_ipus, machine.ipu.num_tiles, machine.name) == (ipus, tiles, machine_name)
    assert (device.numIpus, device.tilesPerIPU, device.tilesPerIpu) == (ipus, tiles, tiles)
    assert device.version == device.ipuVersion == options.get("ipuVersion", "ipu2")
    assert (device.type, device.numWorkerContexts, device.driverIds) == (enums.DeviceType.IpuModel, 6, [0])


def test_a_machine_that_a_setting_names_goes_before_the_device(
    manager: DeviceManager, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILESTEP_MACHINE", "c600")
    for _ in range(2):
        machine = manager.createIpuModelDevice({"numIPUs": 3, "tilesPerIPU": 20}).machine()
        assert machine is not None
        assert (machine.name, machine.num_ipus, machine.ipu.num_tiles) == ("c600", 3, 1472)
    assert capsys.readouterr().err.count("The settings name machine c600: it is emulated") == 1


def test_a_cpu_device_has_no_machine(manager: DeviceManager) -> None:
    device = manager.createCpuDevice()
    assert device.machine() is None
    assert (device.numIpus, device.version, device.numWorkerContexts) == (1, "<unknown-cpu>", 1)
    with pytest.raises(popart_exception, match=r"A Cpu device has no IPU"):
        _ = device.ipuVersion


def test_an_offline_device_is_only_compiled_for(manager: DeviceManager) -> None:
    device = manager.createOfflineIPUDevice({"numIPUs": 2, "syncPattern": "singlePipeline", "gatewayMode": "true"})
    machine = device.machine()
    assert machine is not None
    assert (machine.sync_pattern, machine.ipu.num_tiles, device.version) == ("singlePipeline", 1472, "<offline-ipu>")
    assert (device.connectionType, device.isAttached) == (NEVER, False)
    with pytest.raises(popart_exception, match=r"^Cannot attach to offline device"):
        device.attach()
    with pytest.raises(popart_exception, match=r"^Cannot detach from offline device"):
        device.detach()
    with device as same:
        assert same is device


def test_offline_devices_like_others(manager: DeviceManager) -> None:
    like = manager.createOfflineIpuFromDeviceInfo(manager.createIpuModelDevice({"numIPUs": 2, "tilesPerIPU": 8}))
    assert (like.type, like.numIpus, like.tilesPerIPU) == (enums.DeviceType.OfflineIpu, 2, 8)
    whole, part = manager.createOfflineIpuFromSystemString("BOW-POD16", 0), manager.createOfflineIpuFromSystemString("ipu21", 1)
    assert (whole.numIpus, part.numIpus, part.ipuVersion) == (16, 1, "ipu21")
    with pytest.raises(popart_exception, match=r"^Unknown system 'bow-pod15'"):
        manager.createOfflineIpuFromSystemString("bow-pod15", 0)
    with pytest.raises(popart_exception, match=r"A Cpu device has no IPU to compile for"):
        manager.createOfflineIpuFromDeviceInfo(manager.createCpuDevice())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda m: m.createIpuModelDevice({"ipus": 1}),
            r"Invalid option `ipus' passed to DevicexManager::createHostDevice .* Valid options are numIPUs",
        ),
        (
            lambda m: m.createSimDevice({"ipuVersion": "ipu2"}),
            "Invalid option `ipuVersion' passed to .* device type sim. Valid options are numIPUs, tilesPerIPU$",
        ),
        (lambda m: m.createIpuModelDevice({"ipuVersion": "ipu3"}), "Unknown ipuVersion 'ipu3': it must be one of ipu2, ipu21, ipu1"),
        (lambda m: m.createIpuModelDevice({"numIPUs": 0}), "Option numIPUs is '0': it must be a whole number from 1"),
        (lambda m: m.createIpuModelDevice({"tilesPerIPU": "many"}), "Option tilesPerIPU is 'many'"),
        (lambda m: m.createIpuModelDevice({"numIPUs": 1000}), "No ipu-model device with 1000 IPUs of 4 tiles: .* it must be 1 to 256"),
        (lambda m: m.createOfflineIPUDevice({"gatewayMode": "maybe"}), "Option gatewayMode is 'maybe': it must be true or false"),
        (lambda m: m.createOfflineIPUDevice({"syncPattern": "Full"}), "Unknown syncPattern setting: Full. It must be one of full, single"),
    ],
)
def test_options_that_are_not_allowed(manager: DeviceManager, call: Any, message: str) -> None:
    with pytest.raises(popart_exception, match=f"^{message}"):
        call(manager)


@pytest.mark.parametrize("given", [None, "numIPUs"])
def test_options_that_are_no_dict_are_a_type_error(manager: DeviceManager, given: Any) -> None:
    for create in (manager.createIpuModelDevice, manager.createSimDevice, manager.createOfflineIPUDevice):
        with pytest.raises(TypeError, match=r"^options of a device must be a dict, such as \{'numIPUs': 1\}, not "):
            create(given)


def test_other_kinds_are_listed_as_they_are_asked_for(manager: DeviceManager) -> None:
    kinds = enums.DeviceType
    assert [device.numIpus for device in manager.enumerateDevices(numIpus=3, deviceType=kinds.IpuModel)] == [3]
    assert [device.type for device in manager.enumerateDevices(deviceType=kinds.Cpu)] == [kinds.Cpu]
    assert manager.enumerateDevices(numIpus=2, deviceType=kinds.Cpu) == []
    models = [manager.enumerateDevices(deviceType=kinds.IpuModel, tilesPerIPU=tiles) for tiles in (0, 20)]
    assert [device.tilesPerIPU for (device,) in models] == [4, 20]


def test_the_first_free_device_is_acquired_or_one_by_chance(manager: DeviceManager) -> None:
    with manager.acquireAvailableDevice(1) as first, manager.acquireAvailableDevice(1) as second:
        assert (first.id, second.id) == (0, 1)
    chosen = [
        manager.acquireAvailableDevice(1, selectionCriterion=enums.DeviceSelectionCriterion.Random, connectionType=ON_DEMAND).id
        for _ in range(2)
    ]
    assert chosen[0] == chosen[1] != 0  # the same in each process, as in the original


@pytest.mark.parametrize("pattern", list(enums.SyncPattern))
def test_a_device_by_its_number_has_the_pattern_and_connection_that_it_was_asked_for(
    manager: DeviceManager, pattern: enums.SyncPattern
) -> None:
    with manager.acquireDeviceById(24, pattern, ON_DEMAND) as device:
        machine = device.machine()
        assert machine is not None
        assert (device.driverIds, device.isAttached, machine.sync_pattern) == ([0, 1, 2, 3], False, str(pattern))
        assert manager.tryAcquireDeviceById(24, pattern) is not None  # nobody has it yet
