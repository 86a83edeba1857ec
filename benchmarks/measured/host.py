"""What the host of PopART, PopTorch and PopRT adds to a run. It belongs to the frameworks that made these runs, not to the machine."""

from __future__ import annotations

from typing import Final

# Between two calls of a training program nothing runs: the next call's data are stacked, the learning rate is set, the loss is read.
# One number, fitted to MLPerf's BERT-Large whose state is on chip, on 64 and 128 IPUs (one update a call).
CALL_SECONDS: Final = 0.1
# A call waits for the host's copy of its data into the stream's buffer, too, and so do its results. Of a call that has several batches the
# host copies one while the one before is computed (PopART's enablePrefetchDatastreams, which is on).
# graphcore/examples@3cc8f81 vision/efficientdet/tensorflow2/README.md: 8.8 MB from IPU to host in 3.1 ms, of which a link of 6.33 GB/s
# takes 1.4.
COPY_BYTES_PER_SECOND: Final = 5.15e9
