"""Training loops on any JAX platform: nothing here knows of the emulator."""

from __future__ import annotations

from tilestep.train.accumulation import AccumulationState as AccumulationState
from tilestep.train.accumulation import accumulate_gradients as accumulate_gradients
from tilestep.train.accumulation import effective_batch_size as effective_batch_size
from tilestep.train.accumulation import gradient_accumulation as gradient_accumulation
from tilestep.train.cross_replica import cross_replica as cross_replica
from tilestep.train.cross_replica import cross_replica_all_gather as cross_replica_all_gather
from tilestep.train.cross_replica import cross_replica_all_to_all as cross_replica_all_to_all
from tilestep.train.cross_replica import cross_replica_mean as cross_replica_mean
from tilestep.train.cross_replica import cross_replica_reduce_scatter as cross_replica_reduce_scatter
from tilestep.train.cross_replica import cross_replica_sum as cross_replica_sum
from tilestep.train.cross_replica import element_key as element_key
from tilestep.train.cross_replica import replica_count as replica_count
from tilestep.train.cross_replica import replica_index as replica_index
from tilestep.train.cross_replica import replica_key as replica_key
from tilestep.train.dataset_bench import dataset_benchmark as dataset_benchmark
from tilestep.train.dataset_bench import infeed_benchmark as infeed_benchmark
from tilestep.train.devices import select_devices as select_devices
from tilestep.train.divergence import ReplicaDifference as ReplicaDifference
from tilestep.train.divergence import replica_differences as replica_differences
from tilestep.train.divergence import require_equal_replicas as require_equal_replicas
from tilestep.train.infeed_queue import InfeedQueue as InfeedQueue
from tilestep.train.loop import LoopState as LoopState
from tilestep.train.loop import loop_state as loop_state
from tilestep.train.loop import repeat as repeat
from tilestep.train.loop import while_loop as while_loop
from tilestep.train.optimizer_state import apply_updates as apply_updates
from tilestep.train.optimizer_state import offloaded as offloaded
from tilestep.train.optimizer_state import on_device as on_device
from tilestep.train.optimizer_state import placed as placed
from tilestep.train.optimizer_state import placed_like as placed_like
from tilestep.train.outfeed_queue import OutfeedQueue as OutfeedQueue
from tilestep.train.program_feeds import PendingFeeds as PendingFeeds
from tilestep.train.program_feeds import clear_feeds as clear_feeds
from tilestep.train.program_feeds import infeed as infeed
from tilestep.train.program_feeds import outfeed as outfeed
from tilestep.train.program_feeds import pending_feeds as pending_feeds
from tilestep.train.program_feeds import set_feed_timeout as set_feed_timeout
from tilestep.train.program_feeds import transfer_from_outfeed as transfer_from_outfeed
from tilestep.train.program_feeds import transfer_to_infeed as transfer_to_infeed
from tilestep.train.replicas import Replicas as Replicas
from tilestep.train.sharded_state import replica_specs as replica_specs
from tilestep.train.sharded_state import sharded as sharded
from tilestep.train.sharded_state import unsharded as unsharded
from tilestep.train.shards import Shard as Shard
