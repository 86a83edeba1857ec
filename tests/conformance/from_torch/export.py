#!/usr/bin/env python3
"""Makes the exports beside this file: networks of PyTorch as ONNX, with what PyTorch says of their outputs, loss and gradients.

    python -m tests.conformance.from_torch.export [FOLDER]

It needs `pip install '.[torch]'`. `digits` is the network of docs/how-to/pytorch.md, made by that page's own code. A NAME.npz has inputs
and outputs by name; `target`, `loss` and `grad.PARAMETER` of training; and `state.NAME`, running statistics after one training step.
"""

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from tests.documents import blocks

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER.parents[2] / "docs" / "how-to" / "pytorch.md"


class Encoder(nn.Module):
    """A small transformer that reads tokens, and says which of five kinds a sentence is."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 24)
        self.position = nn.Parameter(0.1 * torch.randn(12, 24))
        layer = nn.TransformerEncoderLayer(24, 3, 48, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(24, 5)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.layers(self.embedding(tokens) + self.position[: tokens.shape[1]]).mean(1))


class Lstm(nn.Module):
    """Two layers that read a series in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 4)

    def forward(self, series: Any) -> Any:
        states, _ = self.lstm(series)
        return self.head(states[:, -1])


def mlp() -> Any:
    """Layers with batch norms of [batch, features]."""
    widths = [nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.BatchNorm1d(32), nn.Tanh()]
    return nn.Sequential(*widths, nn.Linear(32, 3))


def autoencoder() -> Any:
    """Convolutions with strides, groups and transposed, group norm, pooling, and images that are enlarged."""
    down = [nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 16, 3, padding=1, groups=16)]
    up = [nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1), nn.LeakyReLU(0.1), nn.Upsample(scale_factor=2, mode="bilinear")]
    return nn.Sequential(*down, nn.AvgPool2d(2), *up, nn.Conv2d(8, 3, 1))


def write_all(folder: Path) -> None:
    """Writes every export into `folder`."""
    torch.manual_seed(0)
    images, labels, network = _from_page(folder / "digits.onnx")
    _write_figures(folder / "digits.npz", network, "image", images, "scores", labels)
    classes = torch.arange(8)
    for name, network, inputs, target in (
        ("encoder", Encoder(), torch.randint(0, 32, (8, 12)), classes % 5),
        ("lstm", Lstm(), torch.randn(8, 7, 8), classes % 4),
        ("mlp", mlp(), torch.randn(8, 10), classes % 3),
        ("autoencoder", autoencoder(), torch.rand(2, 3, 16, 16), torch.rand(2, 3, 16, 16)),
    ):
        network.eval()
        program = torch.onnx.export(
            network,
            (inputs,),
            dynamo=True,
            input_names=["x"],
            output_names=["y"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            optimize=False,
            verbose=False,
        )
        onnx.save(_without_traces(program.model_proto), str(folder / f"{name}.onnx"))
        _write_figures(folder / f"{name}.npz", network, "x", inputs, "y", target)


def _from_page(path: Path) -> tuple[Any, Any, Any]:
    """(images, labels, network) of the page's first block, which is run; its export goes to `path`."""
    first = next(block for block in blocks(PAGE.read_text(encoding="utf-8")) if block.language == "python")
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        exec(compile(first.text, str(PAGE), "exec"), names)
        onnx.save(_without_traces(onnx.load("build/digits.onnx")), str(path))
    return names["images"][:64], names["labels"][:64], names["network"]


def _without_traces(made: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the stacks that PyTorch notes for each node, which name files of this computer."""
    for part in (*made.graph.node, *made.graph.input, *made.graph.output, *made.graph.initializer, made.graph, made):
        del part.metadata_props[:]
    del made.graph.value_info[:]
    return made


def _write_figures(path: Path, network: Any, input_name: str, inputs: Any, output_name: str, target: Any) -> None:
    """Outputs of inference; loss, gradients and running statistics of a training step."""
    network.eval()
    figures = {input_name: inputs, output_name: network(inputs), "target": target}
    network.train()
    outputs = network(inputs)
    loss = nn.functional.mse_loss(outputs, target) if target.is_floating_point() else nn.functional.cross_entropy(outputs, target)
    network.zero_grad()
    loss.backward()
    figures["loss"] = loss
    figures |= {f"grad.{name}": parameter.grad for name, parameter in network.named_parameters()}
    figures |= {f"state.{name}": buffer for name, buffer in network.named_buffers() if buffer.is_floating_point()}
    np.savez_compressed(path, **{name: figure.detach().numpy() for name, figure in figures.items()})


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
