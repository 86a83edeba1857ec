"""Training loops on any JAX platform: nothing here knows of the emulator."""

from __future__ import annotations

from tilestep.train.dataset_bench import dataset_benchmark as dataset_benchmark
from tilestep.train.dataset_bench import infeed_benchmark as infeed_benchmark
from tilestep.train.infeed_queue import InfeedQueue as InfeedQueue
from tilestep.train.loop import LoopState as LoopState
from tilestep.train.loop import loop_state as loop_state
from tilestep.train.loop import repeat as repeat
from tilestep.train.loop import while_loop as while_loop
from tilestep.train.outfeed_queue import OutfeedQueue as OutfeedQueue
from tilestep.train.program_feeds import PendingFeeds as PendingFeeds
from tilestep.train.program_feeds import clear_feeds as clear_feeds
from tilestep.train.program_feeds import infeed as infeed
from tilestep.train.program_feeds import outfeed as outfeed
from tilestep.train.program_feeds import pending_feeds as pending_feeds
from tilestep.train.program_feeds import set_feed_timeout as set_feed_timeout
from tilestep.train.program_feeds import transfer_from_outfeed as transfer_from_outfeed
from tilestep.train.program_feeds import transfer_to_infeed as transfer_to_infeed
