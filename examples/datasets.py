"""The pictures of handwritten digits that the examples train on: scikit-learn's 8x8 scans, or MNIST's own idx files.

An idx file is: two zero bytes, a code for the element type, the number of dimensions, each dimension as a big-endian
32-bit number, then the elements. Source: http://yann.lecun.com/exdb/mnist, "File formats".
"""

from __future__ import annotations

import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

NUM_CLASSES = 10
_IDX_UNSIGNED_BYTE = 0x08
_TEST_FRACTION = 5  # every fifth of the 1,797 small digits is for testing
_MAX_BYTES = (
    2**30
)  # of an unpacked file: a small .gz can hold any number of them. EMNIST's largest has 0.6 of that
_SPLIT_SEED = 0  # which ones: the same in every run


class DataError(ValueError):
    """A file of pictures is missing or not what it should be; the message names the file, what it holds and what it should."""


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Pictures and what they show: `images` is f32[n, pixels] in 0 to 1, `labels` i32[n] in 0 to 9."""

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """What to train on, and what to test on."""

    name: str
    train: Pictures
    test: Pictures


def load_digits() -> Dataset:
    """1,797 real scans of 8x8 pixels, which come with scikit-learn; a fifth of them is kept for testing."""
    from sklearn import datasets as sklearn_datasets

    digits = sklearn_datasets.load_digits()
    images = (digits.data / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(labels))
    test, train = np.split(order, [len(order) // _TEST_FRACTION])
    return Dataset(
        name="scikit-learn digits",
        train=Pictures(images=images[train], labels=labels[train]),
        test=Pictures(images=images[test], labels=labels[test]),
    )


def load_mnist(directory: Path) -> Dataset:
    """MNIST, or a data set in its format, from four idx files (as they are or with .gz) in `directory`.

    Raises: DataError if a file is missing, damaged or does not fit the others.
    """
    if not directory.is_dir():
        raise DataError(f"{directory} is not a folder: name the one with MNIST's four idx files")
    train = _load_pair(directory, "train")
    test = _load_pair(directory, "t10k")
    if train.images.shape[1] != test.images.shape[1]:
        raise DataError(
            f"{directory}: pictures to train on have {train.images.shape[1]} pixels, those to test on {test.images.shape[1]}"
        )
    return Dataset(name=str(directory), train=train, test=test)


def read_idx(path: Path, *, num_dimensions: int) -> npt.NDArray[np.uint8]:
    """The array of bytes in one idx file; a name that ends in .gz is unpacked.

    Raises: DataError if the file is no idx file of bytes with `num_dimensions` dimensions, or has another length than it says.
    """
    content = _read(path)
    header_bytes = 4 + 4 * num_dimensions
    expected_magic = _IDX_UNSIGNED_BYTE << 8 | num_dimensions
    magic = int.from_bytes(content[:4], "big")
    if len(content) < 4 or magic != expected_magic:
        raise DataError(
            f"{path}: magic number is {magic} (0x{magic:08x}), expected {expected_magic} (0x{expected_magic:08x})"
        )
    if len(content) < header_bytes:
        raise DataError(f"{path}: has {len(content)} bytes, its header alone needs {header_bytes}")
    dims = tuple(int(size) for size in np.frombuffer(content, ">u4", count=num_dimensions, offset=4))
    if len(content) - header_bytes != math.prod(dims):
        shape = "x".join(map(str, dims))
        raise DataError(
            f"{path}: says {shape}, which is {math.prod(dims):,} bytes, but holds {len(content) - header_bytes:,}"
        )
    return np.frombuffer(content, np.uint8, offset=header_bytes).reshape(dims)


def _read(path: Path) -> bytes:
    packed = path.suffix == ".gz"
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: {'is not a whole gzip file' if packed else 'cannot be read'} ({error})"
        ) from error
    if len(content) > _MAX_BYTES:
        raise DataError(
            f"{path}: holds more than {_MAX_BYTES:,} bytes, which is more than any data set in this format"
        )
    return content


def _find(directory: Path, name: str) -> Path:
    for candidate in (directory / name, directory / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise DataError(f"{directory}: holds neither {name} nor {name}.gz")


def _load_pair(directory: Path, prefix: str) -> Pictures:
    image_path = _find(directory, f"{prefix}-images-idx3-ubyte")
    label_path = _find(directory, f"{prefix}-labels-idx1-ubyte")
    images = read_idx(image_path, num_dimensions=3)
    labels = read_idx(label_path, num_dimensions=1)
    if images.size == 0:
        raise DataError(f"{image_path}: holds no pictures")
    if len(images) != len(labels):
        raise DataError(f"{image_path} has {len(images):,} pictures, {label_path} {len(labels):,} labels")
    if labels.max() >= NUM_CLASSES:
        raise DataError(f"{label_path}: has label {labels.max()}, the highest allowed is {NUM_CLASSES - 1}")
    return Pictures(
        images=images.reshape(len(images), -1).astype(np.float32) / 255, labels=labels.astype(np.int32)
    )
