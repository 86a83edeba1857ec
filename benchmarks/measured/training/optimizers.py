"""The optimiser that a row's conditions name."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import optax

from benchmarks.measured.row_error import RowError
from benchmarks.measured.training.conditions import TrainingConditions
from benchmarks.models.layers import library
from benchmarks.models.optimizers import in_float32

_RATE = 1e-3  # costs the same whatever it is


def optimizer_of(conditions: TrainingConditions) -> optax.GradientTransformation:
    """The optimiser, with its state in the named dtypes.

    Raises: RowError for an optimiser that is not known here.
    """
    text, state = conditions.optimizer.casefold(), conditions.opt_state.casefold()
    first = jnp.float16 if re.search(r"\bm fp16", state) else jnp.float32
    if text.startswith("lamb"):
        chosen = in_float32(optax.chain(
            optax.scale_by_adam(mu_dtype=first), optax.add_decayed_weights(0.01), optax.scale_by_trust_ratio(), optax.scale(-_RATE)
        ))  # fmt: skip
    elif text.startswith("adam"):
        decay = [optax.add_decayed_weights(0.01)] if text.startswith("adamw") else []
        chosen = in_float32(optax.chain(optax.scale_by_adam(mu_dtype=first), *decay, optax.scale(-_RATE)))
    elif text.startswith("lars"):
        chosen = optax.lars(_RATE, 5e-5, momentum=0.9, weight_decay_mask=_kernels, trust_ratio_mask=_kernels)
    elif text.startswith("sgd"):
        chosen = optax.sgd(_RATE, momentum=0.9)
    else:
        raise RowError(f"optimizer is {conditions.optimizer!r}: it must begin with one of LAMB, Adam, AdamW, LARS, SGD")
    clipped = "max_grad_norm" in text or "global norm" in conditions.note.casefold()
    whole = optax.GradientTransformation(chosen.init, library(chosen.update))  # PopART updates a variable by few expressions
    return optax.chain(optax.clip_by_global_norm(1.0), whole) if clipped else whole


def _kernels(params: Any) -> Any:
    """LARS scales and decays no biases, and no scales of norms."""
    return jax.tree.map(lambda variable: variable.ndim > 1, params)


def is_off_chip(conditions: TrainingConditions) -> bool:
    """Whether the state is in streaming memory between updates."""
    return "off chip" in conditions.opt_state.casefold()


def is_sharded(conditions: TrainingConditions) -> bool:
    """Whether each replica has a part of the state (replicated tensor sharding)."""
    return "RTS" in conditions.opt_state and "no RTS" not in conditions.opt_state and conditions.number("replicas") > 1


def group_size_of(conditions: TrainingConditions) -> int | None:
    """The replicas of a host, if the state is divided within each; None if it is divided among all replicas.

    Raises: RowError if they are no whole number.
    """
    found = re.search(r"\bwithin a host of (\d+) IPUs", conditions.opt_state)
    if not found:
        return None
    ipus, each = int(found[1]), conditions.number("ipus_per_replica")
    if not ipus or ipus % each:
        raise RowError(f"opt_state has a host of {ipus} IPUs: with ipus_per_replica {each} that is no whole number of replicas above 0")
    return ipus // each


def accumulators_of(conditions: TrainingConditions) -> jnp.dtype | None:
    """The dtype in which microbatches' gradients are summed; None for that of the variables."""
    found = re.search(r"\baccumulator fp(16|32)", conditions.opt_state)
    return jnp.dtype(f"float{found[1]}") if found else None
