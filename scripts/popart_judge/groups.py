"""Which group a file of PopART's tests belongs to: a table, and the first line that fits counts."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

OTHERS: Final = "others"
# (group, patterns of files below tests/integration; * crosses folders)
TABLE: Final = (
    ("operators", ("operators_test/*", "addbias.py", "all_constexpr.py", "constant_op_test.py", "constexpr_tests/*", "dont_inplace_test.py",
                   "float_to_half_conversion_test.py", "fp16_test.py", "logical_if_tests/*", "matmul_tests/*", "min_max_unwinding_test.py",
                   "nop_test.py", "printtensor.py", "serialise_matmul_manually.py", "slice_pad_dual_tests/*", "supported_ops_test.py",
                   "topk_tests/*", "type_casting_test.py")),
    ("anchors", ("anchor_tests/*", "anchorreturntype_test.py")),
    ("StepIO", ("stepio_tests/*", "loader_test.py", "np_memory_layout_test.py", "prefetch_test.py", "stream_test.py",
                "int8_host_stream_test.py")),
    ("options", ("options_test.py", "deprecated_session_options.py", "available_memory_proportion_test.py", "conv_dithering_test.py",
                 "convolution_options_test.py", "dot_tests/*", "enhanced_debug.py", "logging_test.py", "partials_tests.py",
                 "synthetic_data_test.py")),
    ("exceptions", ("exception_test.py", "abort_test.py", "constant_weights_error_test.py", "import_test.py", "prune_all_error_test.py",
                    "version_test.py")),
    ("recomputation", ("recompute_tests/*", "recompute_compatibility_test.py")),
    ("builder", ("builder_test.py", "builder_name_test.py", "context_scope_test.py", "debug_info_test.py", "dim_param_test.py",
                 "doc_test.py", "export_test.py", "external_tensorproto_data_test.py",
                 "model_loading_test.py", "net_test.py", "stubs_test.py")),
    ("optimisers", ("optimizer_test.py", "optimizer_tests/*", "auto_loss_scaling_*", "clip_by_norm_test.py", "lambserialisedweight_tests/*",
                    "loss_scaling_*", "loss_grad_scaling_with_replication.py")),
    ("train-then-infer", ("train_then_infer_test.py", "variable_inference_test.py", "session_api_tests/reset_host_weights_test.py")),
    ("accumulation", ("gradient_accumulation_test.py", "decompose_gradient_summation_test.py")),
    ("pipelining", ("pipelining_tests/*",)),
    ("replicas", ("collectives_test.py", "distributed_*", "graph_replication_test.py", "identical_replica_test.py", "replica_*",
                  "streammode_tests/*", "test_all_reduce_op.py", "test_groupHostSync.py")),
    ("virtual graphs", ("auto_virtual_graph_test.py", "auto_virtual_graph_tests/*", "ipu_copy_test.py", "virtual_graph_*")),
    ("streaming memory", ("streamingmemory_tests/*", "aliaszerocopy_model_test.py")),
    ("devices", ("device_test.py", "offline_compilation.py")),
    ("executables", ("saved_executable*", "graph_caching_test.py")),
    ("reports", ("report_test*", "cycle_count_test.py")),
    ("random numbers", ("random_test.py", "randomsetup_test.py", "session_api_tests/rng_test.py", "dropout_*")),
    ("patterns and transformations", ("patterns_test.py", "pattern_tests/*", "inplace_tests/*", "outlining_*", "padsumpattern.py",
                                      "scheduling_tests/*", "subgraph_tests/*", "tiedgather_tests/*", "transformation_tests/*",
                                      "contiguous_memory_test.py")),
)  # fmt: skip
NAMES: Final = (*(name for name, _ in TABLE), OTHERS)
# Groups of which more is asked than of the others: what one device does, and how models are spread over several.
ONE_DEVICE: Final = ("operators", "anchors", "StepIO", "options", "exceptions", "builder", "optimisers", "train-then-infer")
SEVERAL: Final = ("pipelining", "virtual graphs", "devices", "accumulation", "replicas", "recomputation")


def group_of(file: str) -> str:
    """The group of a file below tests/integration."""
    return next((name for name, patterns in TABLE if any(fnmatchcase(file, pattern) for pattern in patterns)), OTHERS)
