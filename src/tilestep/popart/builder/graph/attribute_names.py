"""Names of attributes and of entries in a model's metadata that say where and how its operators run."""

from typing import Final

VIRTUAL_GRAPH: Final = "__ipu_number"
PIPELINE_STAGE: Final = "__pipeline_stage"
EXECUTION_PHASE: Final = "__execution_phase"
RECOMPUTE_OUTPUT: Final = "__recompute_output_in_backward_pass"
OUTPUT_TENSOR_LOCATION: Final = "__output_tensor_location"
SCHEDULE_PRIORITY: Final = "__schedule_priority"
EXCLUDE_PATTERNS: Final = "__exclude_patterns"
OUTLINE: Final = "__outline"
INPLACE_NAMES: Final = "__inplace_op_names"
INPLACE_PRIORITIES: Final = "__inplace_op_priorities"

AVAILABLE_MEMORY: Final = "__available_memory"
PARTIALS_TYPE: Final = "__partials_type"
CONV_DITHERING: Final = "__enable_conv_dithering"
SERIALIZE_MATMUL_MODE: Final = "__serialize_matmul_mode"
SERIALIZE_MATMUL_FACTOR: Final = "__serialize_matmul_factor"
SERIALIZE_MATMUL_PRECISION: Final = "__serialize_matmul_precision"

COLLECTIVE_OPERATOR: Final = "__collectiveOperator"
COLLECTIVE_COMM_GROUP: Final = "__collectiveCommGroup"

DEBUG_INFO_ID: Final = "__debug_info_id"

# Entries of the model's metadata; those of one tensor are NAME + "/" + its id.
DEBUG_INPUT: Final = "__debug_id/input/"  # + id
TILE_SET: Final = "__tile_set"
EXCHANGE_STRATEGY: Final = "__exchange_strategy"
REPLICATED_STREAM_MODE: Final = "__replicated_stream_mode"
COMM_GROUP_TYPE: Final = "__comm_group_type"
COMM_GROUP_SIZE: Final = "__comm_group_size"
VARIABLE_SETTINGS: Final = "__variable_settings"
REPLICATION_FACTOR: Final = "__replicationFactor"

NAME_DELIMITER: Final = "/"
