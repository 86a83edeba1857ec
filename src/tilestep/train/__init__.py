"""Training loops on any JAX platform: nothing here knows of the emulator."""

from __future__ import annotations

from tilestep.train.dataset_bench import dataset_benchmark as dataset_benchmark
