"""The layers of `gpt_layers` are the GPT of `gpt`, and the plans of the record fit and take as long as they were planned to."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from benchmarks import training_plans
from benchmarks.models import gpt, gpt_layers
from tests.processes import ROOT
from tilestep.train.replicas.replicas import SHARD_AXIS


def test_the_layers_are_those_of_the_model_for_a_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpt_layers, "_QUERIES", 4)
    model = replace(gpt_layers.GPT3_2_7B, layers=2, width=8, heads=2, vocabulary=16, context=8)
    given = gpt_layers.layers(model, 1)
    keys = iter(jax.random.split(jax.random.key(0), 64))
    tables, block, last = jax.tree.map(lambda leaf: jax.random.normal(next(keys), leaf.shape) * 0.3, given["params"])
    last["words"] = tables["words"]
    words = jax.random.randint(next(keys), (2, model.context + 1), 0, model.vocabulary)

    heads = [jnp.reshape(part, (model.layers, model.width, model.heads, 1, -1)) for part in block["heads"]]
    none = jnp.zeros((model.layers, 3 * model.width)), jnp.zeros((model.layers, model.width))
    whole: Any = {
        **tables,
        "norm": last["norm"],
        "layers": {
            "norm1": block["norm1"],
            "norm2": block["norm2"],
            "qkv": {"kernel": jnp.concatenate(heads, 3).reshape(model.layers, model.width, -1), "bias": none[0]},
            "out": {"kernel": block["out"], "bias": none[1]},
            "up": {"kernel": jnp.concatenate(block["up"], 2), "bias": block["up_bias"].reshape(model.layers, -1)},
            "down": {"kernel": jnp.concatenate(block["down"], 1), "bias": block["down_bias"]},
        },
    }
    with jax.set_mesh(Mesh(np.array(jax.devices("cpu")[:1]), (SHARD_AXIS,))):
        values: Any = (words,)
        for layer, params in zip(given["layers"], (tables, block, last), strict=True):
            values = jax.jit(layer)(params, *values)
    np.testing.assert_allclose(values, gpt.loss(model, whole, words), rtol=1e-5)


def test_the_plans_of_the_record_fit_and_take_as_long_as_planned() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results" / "training_plans.json").read_text(encoding="utf-8"))["rows"]
    assert [row["model"] for row in rows] == list(training_plans.SEARCHES)
    assert all(map(training_plans.is_good, rows))
