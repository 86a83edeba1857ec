"""The machines that can be emulated: named ones, ones described in TOML, and the origin of each of their numbers."""

from tilestep.machine.assemble import describe as describe
from tilestep.machine.catalog import DEFAULT_MACHINE as DEFAULT_MACHINE
from tilestep.machine.catalog import machine_names as machine_names
from tilestep.machine.fields import SYNC_PATTERNS as SYNC_PATTERNS
from tilestep.machine.fields import FieldSource as FieldSource
from tilestep.machine.fields import SyncPattern as SyncPattern
from tilestep.machine.host_call import waited_seconds as waited_seconds
from tilestep.machine.spec import HostSpec as HostSpec
from tilestep.machine.spec import IpuSpec as IpuSpec
from tilestep.machine.spec import LinkSpec as LinkSpec
from tilestep.machine.spec import MachineSpec as MachineSpec
from tilestep.machine.spec import TileSpec as TileSpec
from tilestep.machine.toml import changed_machine as changed_machine
from tilestep.machine.toml import load_machine as load_machine
