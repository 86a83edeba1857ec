"""Plans programs: splits them over tiles and steps, and works out their cycles and memory."""

from tilestep.plan.cache import PlanCache as PlanCache
from tilestep.plan.frames import user_frame as user_frame
from tilestep.plan.lower import lower as lower
from tilestep.plan.lower import lower_in_detail as lower_in_detail
from tilestep.plan.memory.liveness import Life as Life
from tilestep.plan.memory.liveness import Liveness as Liveness
from tilestep.plan.memory.liveness import check_fits as check_fits
from tilestep.plan.memory.streaming import check_streaming_memory as check_streaming_memory
from tilestep.plan.memory.streaming import streaming_memory_bytes as streaming_memory_bytes
from tilestep.plan.steps import Argument as Argument
from tilestep.plan.steps import Branch as Branch
from tilestep.plan.steps import Collective as Collective
from tilestep.plan.steps import Counts as Counts
from tilestep.plan.steps import Frame as Frame
from tilestep.plan.steps import HostCall as HostCall
from tilestep.plan.steps import Loop as Loop
from tilestep.plan.steps import Program as Program
from tilestep.plan.steps import Result as Result
from tilestep.plan.steps import Series as Series
from tilestep.plan.steps import Superstep as Superstep
from tilestep.plan.steps import TileMemory as TileMemory
