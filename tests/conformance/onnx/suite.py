"""onnx's own tests: which there are, how results are compared, and which differ here, with the reason of each."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

RTOL, ATOL = 1e-3, 1e-7  # as onnx's own runner has them
BFLOAT16_RTOL: Final = 2**-6
FOLDERS: Final = ("simple", "pytorch-operator", "pytorch-converted")
SAMPLED: Final = 11  # one of so many tests of operators runs in `make test`

_RANDOM: Final = "its random numbers are others than those of the test's author"
_DECODER: Final = "ImageDecoder is not implemented: the format of an image is no matter of a tensor program"
DIFFERENT: Final[dict[str, str]] = {
    **dict.fromkeys(
        [f"test_bernoulli{kind}{body}" for kind in ("", "_double", "_seed") for body in ("", "_expanded")]
        + [f"test_training_dropout{kind}{mask}" for kind in ("", "_default") for mask in ("", "_mask")],
        _RANDOM,
    ),
    **dict.fromkeys(
        [
            f"test_image_decoder_decode_{kind}"
            for kind in ("bmp_rgb", "jpeg2k_rgb", "jpeg_bgr", "jpeg_grayscale", "jpeg_rgb", "png_rgb", "pnm_rgb", "tiff_rgb", "webp_rgb")
        ],
        _DECODER,
    ),
}

Case = tuple[onnx.ModelProto, Sequence[tuple[Sequence[Any], Sequence[Any]]]]  # (model, (inputs, outputs) of each run)


@cache
def node_tests() -> dict[str, Case]:
    """Tests of one operator each, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the functions that compute what is expected
        return {test.name: (test.model, test.data_sets) for test in load_model_tests(kind="node")}  # pyright: ignore[reportReturnType]


def sampled(names: Sequence[str]) -> list[str]:
    """Every so many of the names, in the order of the alphabet, and all that are expected to differ."""
    return sorted({*sorted(names)[::SAMPLED], *(DIFFERENT.keys() & set(names))})


def folders() -> list[str]:
    """Tests that stand in files, as kind/name."""
    root = Path(onnx.__file__).parent / "backend" / "test" / "data"
    return [f"{kind}/{path.name}" for kind in FOLDERS for path in sorted((root / kind).iterdir()) if (path / "model.onnx").exists()]


def read_folder(name: str) -> tuple[Path, Case]:
    """(the model's file, the test)."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / name
    model = onnx.load(str(folder / "model.onnx"))
    runs = [
        tuple(
            [_read(path, value.type) for number, value in enumerate(values) if (path := run / f"{kind}_{number}.pb").exists()]
            for kind, values in (("input", model.graph.input), ("output", model.graph.output))
        )
        for run in sorted(folder.glob("test_data_set_*"))
    ]
    return folder / "model.onnx", (model, runs)  # pyright: ignore[reportReturnType]


def _read(path: Path, declared: onnx.TypeProto) -> Any:
    kinds = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}
    return value(kinds.get(declared.WhichOneof("value") or "", onnx.TensorProto).FromString(path.read_bytes()))


def value(given: Any) -> Any:
    """A value as NumPy has it; lists for sequences."""
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    if isinstance(given, onnx.SequenceProto):
        return numpy_helper.to_list(given)
    if isinstance(given, onnx.OptionalProto):
        return numpy_helper.to_optional(given)
    return given


def require_same(found: Any, wanted: Any) -> None:
    """Raises: AssertionError unless shapes and dtypes are equal, and numbers are within onnx's own tolerance."""
    if isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            require_same(one, other)
        return
    if wanted is None or found is None:
        assert found is wanted
        return
    wanted = np.asarray(wanted)
    assert (found.shape, wanted.dtype.kind in "OU" or found.dtype) == (wanted.shape, wanted.dtype.kind in "OU" or wanted.dtype)
    if wanted.dtype.kind in "OUbiu":
        np.testing.assert_array_equal(found, wanted)
        return
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    rtol = BFLOAT16_RTOL if wanted.dtype.name == "bfloat16" else RTOL
    np.testing.assert_allclose(found.astype(wide), wanted.astype(wide), rtol=rtol, atol=ATOL)
