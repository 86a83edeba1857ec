"""A pipeline whose optimiser's state is divided within groups of its replicas."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tilestep
from tilestep.train import Pipeline, Shard, select_devices

WIDTH, ROWS, COUNT, REPLICAS = 96, 4, 2, 4  # a weight has 9,216 elements: more than the least that is divided
RNG = np.random.default_rng(0)
PARAMS = [{"w": RNG.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32), "b": np.zeros(WIDTH, np.float32)} for _ in range(2)]
DATA = RNG.normal(size=(COUNT, REPLICAS, ROWS, WIDTH)).astype(np.float32)
OPTIMIZERS = {"adam": optax.adam(0.01), "clipped": optax.chain(optax.clip_by_global_norm(0.01), optax.adam(0.01))}


class Trained(NamedTuple):
    """After two steps. Attributes: profile: of the second one."""

    state: Any
    profile: Any

    @property
    def moments(self) -> list[Any]:
        nodes = jax.tree.leaves(self.state.optimizer_state, is_leaf=lambda node: isinstance(node, Shard))
        return [node for node in nodes if node.size == WIDTH * WIDTH]

    def cycles(self, kind: str) -> int:
        return sum(e.end_cycle - e.start_cycle for e in self.profile.timeline if (e.kind, e.ipu) == (kind, 0))


def dense(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w"] + params["b"])


def loss(params: Any, x: Any) -> Any:
    return (dense(params, x) ** 2).mean()


def pipeline(name: str, shard: Any, *, offload: bool = True, platform: str = "ipu") -> Pipeline:
    """Two stages on one device, four times."""
    devices = select_devices([4], platform=platform)[0]
    options: Any = {"device_mapping": [0, 0], "strict": False, "offload_optimizer_state": offload}
    return Pipeline([dense, loss], OPTIMIZERS[name], COUNT, replicas=REPLICAS, devices=devices, shard_optimizer_state=shard, **options)


@functools.cache
def trained(name: str, text: str) -> Trained:
    """Args: text: of `shard_optimizer_state`: 1 and True are one key."""
    made = pipeline(name, {"True": True, "False": False}.get(text) if text in ("True", "False") else int(text))
    state, _ = made.step(made.init(PARAMS), DATA)
    with tilestep.profile() as found:
        state, _ = made.step(state, DATA)
        jax.block_until_ready(state)
    return Trained(state, found)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["adam", pytest.param("clipped", marks=pytest.mark.slow)])
def test_a_larger_part_takes_longer_to_the_host_and_all_has_a_price(name: str) -> None:
    whole, two, four = (trained(name, text) for text in ("False", "2", "True"))
    assert four.cycles("host-call") < two.cycles("host-call") < whole.cycles("host-call")
    # Of n gradients a replica sends 3n/4 to be scattered and 3n/4 to be gathered, or 3 times n/2: as much. Those that are summed whole are
    # not scattered.
    assert 0 < two.cycles("collective") <= four.cycles("collective")
    assert (name == "clipped") == (two.cycles("collective") < four.cycles("collective"))
    assert {program.fallback_ops for program in two.profile.profile.programs} == {()}


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (3, ValueError, "shard_optimizer_state is 3: 4 replicas / group_size 3 = 1.333 groups, no whole number: group_size must be one of"),
        (8, ValueError, "4 replicas / group_size 8 = 0.5 groups"),
        (0, ValueError, "shard_optimizer_state is 0: it must be True or False, or the number of replicas of a group, 1 or more"),
        (-2, ValueError, "shard_optimizer_state is -2: it must be True or False"),
        (2.0, TypeError, "shard_optimizer_state is 2.0: it must be True or False"),
        ("two", TypeError, "shard_optimizer_state is 'two': it must be True or False"),
    ],
)
def test_sizes_that_cannot_be_are_refused(wrong: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pipeline("adam", wrong)
