"""A graph network on the karate club.

Guess which side each member of a karate club took when it split, from who met whom and two known members.

    tilestep run examples/karate_club.py

Zachary's karate club (1977): 34 members, 78 friendships, two factions. A graph convolutional network (Kipf and Welling 2017) sees
the graph and the labels of its two leaders only.
"""

# %%
from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import optax

from flags import parse_backend

HIDDEN_UNITS = (64, 64)
NUM_FACTIONS = 2
LEADERS = (0, 33)  # "Mr. Hi" and the officer: the only members whose faction is known in training
NUM_STEPS = 20
optimizer = optax.adam(learning_rate=0.02)

backend = parse_backend("Train a graph network with JAX on an emulated IPU.")

# %% [markdown]
# ## The graph
# Edges are two arrays of node numbers. A message's weight is 1 / sqrt(degree of sender * degree of receiver).


# %%
class Graph(NamedTuple):
    """Directed edges, each node's own one included, with the weight that a message gets on its way."""

    senders: np.ndarray
    receivers: np.ndarray
    edge_weights: np.ndarray
    factions: np.ndarray


def load_graph() -> Graph:
    """The club as networkx has it."""
    club = nx.karate_club_graph()
    num_nodes = club.number_of_nodes()
    edges = np.array(club.edges, np.int32)
    own = np.arange(num_nodes, dtype=np.int32)
    senders = np.concatenate([edges[:, 0], edges[:, 1], own])
    receivers = np.concatenate([edges[:, 1], edges[:, 0], own])
    degrees = np.bincount(receivers, minlength=num_nodes)
    edge_weights = (1 / np.sqrt(degrees[senders] * degrees[receivers])).astype(np.float32)
    factions = np.array([club.nodes[node]["club"] == "Officer" for node in range(num_nodes)], np.int32)
    return Graph(senders, receivers, edge_weights, factions)


graph = load_graph()
num_nodes = len(graph.factions)
print(f"{num_nodes} members, {len(graph.senders)} messages in a layer")

# %% [markdown]
# ## The network
# Messages go along edges by a gather and a `segment_sum`. Members are told apart by a one-hot row each.

# %%
Params = list[jax.Array]  # weights of each layer


def init_params(key: jax.Array, sizes: tuple[int, ...]) -> Params:
    """Weights by Glorot and Bengio's rule (2010)."""
    keys = jax.random.split(key, len(sizes) - 1)
    initializer = jax.nn.initializers.glorot_normal()
    return [initializer(layer_key, shape) for layer_key, shape in zip(keys, pairwise(sizes), strict=True)]


def predict(params: Params, graph: Graph) -> jax.Array:
    """Logits of the factions, one row for each member."""
    nodes = jnp.eye(num_nodes)
    for layer, weights in enumerate(params):
        messages = (nodes @ weights)[graph.senders] * graph.edge_weights[:, None]
        nodes = jax.ops.segment_sum(messages, graph.receivers, num_segments=num_nodes)
        if layer < len(params) - 1:
            nodes = jax.nn.relu(nodes)
    return nodes


# %% [markdown]
# ## One step
# A step returns statistics with the new state. They are from before it changed anything.


# %%
class Statistics(NamedTuple):
    """What a step reports."""

    loss: jax.Array
    accuracy: jax.Array


def loss(params: Params, graph: Graph) -> tuple[jax.Array, jax.Array]:
    """Cross-entropy of the two leaders; and the accuracy over all members."""
    logits = predict(params, graph)
    known = np.array(LEADERS)
    cross_entropy = optax.softmax_cross_entropy_with_integer_labels(
        logits[known], graph.factions[known]
    ).mean()
    return cross_entropy, jnp.mean(logits.argmax(axis=1) == graph.factions)


def update(
    params: Params, optimizer_state: optax.OptState, graph: Graph
) -> tuple[Params, optax.OptState, Statistics]:
    """One step of Adam."""
    (cross_entropy, accuracy), gradients = jax.value_and_grad(loss, has_aux=True)(params, graph)
    updates, optimizer_state = optimizer.update(gradients, optimizer_state, params)
    return optax.apply_updates(params, updates), optimizer_state, Statistics(cross_entropy, accuracy)


jitted_update = jax.jit(update, backend=backend, donate_argnums=(0, 1))

# %% [markdown]
# ## Training
# Initialising is many small operations, so it runs on the CPU.

# %%
with jax.default_device(jax.devices("cpu")[0]):
    params = init_params(jax.random.key(0), (num_nodes, *HIDDEN_UNITS, NUM_FACTIONS))
    optimizer_state = optimizer.init(params)

for step in range(NUM_STEPS):
    params, optimizer_state, statistics = jitted_update(params, optimizer_state, graph)
    accuracy = float(statistics.accuracy)
    print(
        f"step {step}: loss {float(statistics.loss):.4f}, {round(accuracy * num_nodes)} of {num_nodes} right ({accuracy:.3f})"
    )

# %% [markdown]
# Who is wrong? Member 8 had friends on both sides, and chose the other one.

# %%
with jax.default_device(jax.devices("cpu")[0]):
    guesses = predict(jax.device_get(params), graph).argmax(axis=1)
for member in np.flatnonzero(guesses != graph.factions):
    friends = graph.factions[graph.receivers[(graph.senders == member) & (graph.receivers != member)]]
    print(f"member {member} is in faction {graph.factions[member]}; its friends are in {friends.tolist()}")
