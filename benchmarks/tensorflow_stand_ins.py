"""Runs a TensorFlow program with random arrays in the place of data sets that it would download.

    tilestep run --tensorflow benchmarks/tensorflow_stand_ins.py PROGRAM [ARGS]

The arrays have the shapes, dtypes and ranges of the originals, and a tenth of their examples.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

import numpy as np

TRAIN, TEST = 6_000, 1_000  # examples; MNIST has ten times as many
IMAGES: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {"mnist": (28, 28), "fashion_mnist": (28, 28), "cifar10": (32, 32, 3), "cifar100": (32, 32, 3)}
)
PACKAGES: Final = ("tf_keras", "tf_keras.api._v1.keras", "tf_keras.api._v2.keras")  # each has modules of its own
WORDS: Final = 88_587  # different words in Keras' IMDB reviews
LENGTHS: Final = (10, 400)  # words of a review


def images(shape: tuple[int, ...], classes: int) -> Callable[..., Any]:
    """A `load_data` of images, uint8[n, *shape], and labels, uint8[n], or uint8[n, 1] where images have colours."""

    def load_data(*_: Any, **__: Any) -> Any:
        random = np.random.default_rng(0)
        parts = []
        for count in (TRAIN, TEST):
            labels = random.integers(0, classes, (count, 1) if len(shape) == 3 else (count,), dtype=np.uint8)
            parts.append((random.integers(0, 256, (count, *shape), dtype=np.uint8), labels))
        return tuple(parts)

    return load_data


def reviews(*_: Any, num_words: int | None = None, **__: Any) -> Any:
    """A `load_data` of reviews: lists of numbers of words, as an object array, and labels, int64[n]."""
    random = np.random.default_rng(0)
    parts = []
    for count in (TRAIN, TEST):
        texts = np.empty(count, object)
        texts[:] = [random.integers(1, num_words or WORDS, length).tolist() for length in random.integers(*LENGTHS, count)]
        parts.append((texts, random.integers(0, 2, count)))
    return tuple(parts)


def install() -> None:
    """Keras' data sets are random arrays from now on, under each name that programs import them by."""
    loaders = {name: images(shape, 100 if name == "cifar100" else 10) for name, shape in IMAGES.items()} | {"imdb": reviews}
    for name, load_data in loaders.items():
        for package in PACKAGES:
            import_module(f"{package}.datasets.{name}").load_data = load_data


def molecules(*_: Any, amount: int = 1024, **__: Any) -> Any:
    """Spektral's `qm9.load_data`: adjacency [n, 9, 9], atoms [n, 9, 1], bonds [n, 9, 9, 1], and a table with column `cv`."""
    import pandas as pd

    random = np.random.default_rng(0)
    bonds = random.integers(0, 5, (amount, 9, 9, 1))
    return (
        (bonds[..., 0] > 0).astype(float),
        random.choice((0, 1, 6, 7, 8, 9), (amount, 9, 1)),
        bonds,
        pd.DataFrame({"cv": random.random(amount)}),
    )


def graphs() -> ModuleType:
    """`ogb.graphproppred`, whose data sets need PyTorch: random molecules with as many batches of 256 as the program has steps."""
    from sklearn.metrics import roc_auc_score

    random, each = np.random.default_rng(0), 255  # of a batch, because one is padding
    ends = np.cumsum([each, 20 * each, 18 * each])  # of training, which repeats, validation and test

    class GraphPropPredDataset:
        def __init__(self, name: str) -> None:
            self.molecules = [
                molecule(nodes, int(label))
                for nodes, label in zip(*random.integers(((2,), (0,)), ((25,), (2,)), (2, ends[-1])), strict=True)
            ]

        def __getitem__(self, index: int) -> Any:
            return self.molecules[index]

        def get_idx_split(self) -> dict[str, Any]:
            return dict(zip(("train", "valid", "test"), np.split(np.arange(ends[-1]), ends[:-1]), strict=True))

    def molecule(nodes: int, label: int) -> tuple[dict[str, Any], int]:
        """A ring of atoms."""
        atoms = np.arange(nodes)
        graph = {
            "num_nodes": int(nodes),
            "edge_index": np.stack([atoms, np.roll(atoms, 1)]),
            "edge_feat": random.integers(0, 2, (nodes, 3)),
            "node_feat": random.integers(0, 2, (nodes, 9)),
        }
        return graph, label

    class Evaluator:
        def __init__(self, name: str) -> None:
            del name

        def eval(self, values: Mapping[str, Any]) -> dict[str, float]:
            return {"rocauc": roc_auc_score(values["y_true"], values["y_pred"])}

    module = ModuleType("ogb.graphproppred")
    vars(module).update(GraphPropPredDataset=GraphPropPredDataset, Evaluator=Evaluator)
    return module


def photographs(folder: Path) -> None:
    """Pictures in a folder that a script would download. A checkpoint that is not there leaves variables as they are initialised."""
    from tensorflow.compat import v1 as tf

    folder.mkdir(exist_ok=True)
    restore = tf.train.Saver.restore

    def restored(self: Any, session: Any, path: str) -> None:
        if tf.train.checkpoint_exists(path):
            restore(self, session, path)
        else:
            session.run(tf.global_variables_initializer())

    tf.train.Saver.restore = restored
    with tf.Graph().as_default(), tf.Session() as session:
        picture = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
        (folder / "picture.jpg").write_bytes(session.run(tf.io.encode_jpeg(picture)))


def main() -> None:
    program = os.path.abspath(sys.argv[1])
    install()
    if os.path.basename(program).startswith("qm9"):
        np.float, np.int = float, int  # Spektral 0.6 uses them
        import_module("spektral.datasets.qm9").load_data = molecules
    if os.path.basename(program) == "run_training.py":
        sys.modules["ogb.graphproppred"] = graphs()
    if sys.argv[2:] == ["images"]:
        photographs(Path(program).parent / "images")
    sys.argv = [program, *sys.argv[2:]]
    sys.path[0] = os.path.dirname(program)
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
