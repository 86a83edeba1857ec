"""The order of a pipeline's tasks, as data: the usual schedules, tables, checks, and the time that a schedule takes."""

from tilestep.train.schedules.loading import loading_parameters as loading_parameters
from tilestep.train.schedules.partition import LayerCost as LayerCost
from tilestep.train.schedules.partition import Partition as Partition
from tilestep.train.schedules.partition import best_partition as best_partition
from tilestep.train.schedules.partition import pipeline_partition as pipeline_partition
from tilestep.train.schedules.phasing import phases as phases
from tilestep.train.schedules.phasing import simulated_together as simulated_together
from tilestep.train.schedules.schedule import Schedule as Schedule
from tilestep.train.schedules.schedule import from_table as from_table
from tilestep.train.schedules.standard import SCHEDULES as SCHEDULES
from tilestep.train.schedules.standard import grouped as grouped
from tilestep.train.schedules.standard import interleaved as interleaved
from tilestep.train.schedules.standard import looped as looped
from tilestep.train.schedules.standard import offloading as offloading
from tilestep.train.schedules.standard import sequential as sequential
from tilestep.train.schedules.standard import stale as stale
from tilestep.train.schedules.standard import stashed as stashed
from tilestep.train.schedules.standard import zero_bubble as zero_bubble
from tilestep.train.schedules.tasks import Costs as Costs
from tilestep.train.schedules.tasks import Kind as Kind
from tilestep.train.schedules.tasks import Task as Task
from tilestep.train.schedules.tasks import Timeline as Timeline
from tilestep.train.schedules.trace import costs_of as costs_of
from tilestep.train.schedules.trace import traced as traced
