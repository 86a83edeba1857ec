"""Which of onnx's own tests do not pass, and why. docs/reference/onnx.md has the same rows."""

from typing import Final

TESTS_OF_OPERATORS: Final = 1884  # of onnx 1.23.2
MODELS_IN_FILES: Final = 140

RANDOM: Final = "random numbers are others than those of the test's author"
IMAGES: Final = "`ImageDecoder` is missing, because the format of an image is no matter of a tensor program"
UNCOMPARED: Final = "onnx's runner can't compare a sequence of scalars; the values are right"
BY_VALUES: Final = "the shape of a result depends on values, so a program needs `bounds`"
TEXT: Final = "XLA has no text"
PRESENCE: Final = "whether a result is there at all depends on a value"

_ALWAYS: Final[dict[str, str]] = {
    RANDOM: """bernoulli bernoulli_expanded bernoulli_double bernoulli_double_expanded bernoulli_seed bernoulli_seed_expanded
        training_dropout training_dropout_default training_dropout_default_mask training_dropout_mask""",
    IMAGES: """image_decoder_decode_bmp_rgb image_decoder_decode_jpeg2k_rgb image_decoder_decode_jpeg_bgr
        image_decoder_decode_jpeg_grayscale image_decoder_decode_jpeg_rgb image_decoder_decode_png_rgb image_decoder_decode_pnm_rgb
        image_decoder_decode_tiff_rgb image_decoder_decode_webp_rgb""",
    UNCOMPARED: "loop16_seq_none",
}
_AS_A_PROGRAM: Final[dict[str, str]] = {
    BY_VALUES: """compress_0 compress_1 compress_bfloat16 compress_default_axis compress_negative_axis
        nonmaxsuppression_center_point_box_format nonmaxsuppression_flipped_coordinates nonmaxsuppression_identical_boxes
        nonmaxsuppression_iou_threshold_boundary nonmaxsuppression_limit_output_size nonmaxsuppression_single_box
        nonmaxsuppression_suppress_by_IOU nonmaxsuppression_suppress_by_IOU_and_scores nonmaxsuppression_two_batches
        nonmaxsuppression_two_classes nonzero_example unique_bfloat16_sorted_without_axis unique_length_1 unique_not_sorted_without_axis
        unique_sorted_with_axis unique_sorted_with_axis_3d unique_sorted_with_negative_axis unique_sorted_without_axis""",
    TEXT: """string_concat string_concat_broadcasting string_concat_empty_string string_concat_utf8 string_concat_zero_dimensional
        string_split_basic string_split_consecutive_delimiters string_split_empty_string_delimiter string_split_empty_tensor
        string_split_maxsplit string_split_no_delimiter strnormalizer_export_monday_casesensintive_lower
        strnormalizer_export_monday_casesensintive_nochangecase strnormalizer_export_monday_casesensintive_upper
        strnormalizer_export_monday_empty_output strnormalizer_export_monday_insensintive_upper_twodim
        strnormalizer_nostopwords_nochangecase""",
    PRESENCE: "if_opt",
}
_MODELS_AS_PROGRAMS: Final[dict[str, str]] = {
    TEXT: """strnorm_model_monday_casesensintive_lower strnorm_model_monday_casesensintive_nochangecase
        strnorm_model_monday_casesensintive_upper strnorm_model_monday_empty_output strnorm_model_monday_insensintive_upper_twodim
        strnorm_model_nostopwords_nochangecase""",
}


def _reasons(*tables: dict[str, str]) -> dict[str, str]:
    return {f"test_{name}": reason for table in tables for reason, names in table.items() for name in names.split()}


NODE_BY_NODE: Final = _reasons(_ALWAYS)
AS_A_PROGRAM: Final = _reasons(_ALWAYS, _AS_A_PROGRAM)
MODELS_AS_PROGRAMS: Final = _reasons(_MODELS_AS_PROGRAMS)
