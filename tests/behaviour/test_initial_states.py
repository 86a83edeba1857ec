"""What the runtime starts on emulated IPUs before the first step: a state comes to its devices by one program, or by none."""

import pytest

from tests.in_turn import python

BEGIN = """
import jax, jax.numpy as jnp, numpy as np, optax, tilestep
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tilestep.train import *
jax.config.update("jax_platforms", "ipu,cpu")
jax.config.update("jax_ipu_device_count", 4)
ipus = jax.devices()
host = {f"layer {i}": {"w": np.full((16, 16), i, np.float32), "b": np.zeros(16, np.float32)} for i in range(6)}
params = jax.device_put(host, ipus[1])
def loads(function):
    with tilestep.profile() as profile:
        result = function()
        jax.block_until_ready([leaf for leaf in jax.tree.leaves(result) if isinstance(leaf, jax.Array)])
    return sum(program.loads for program in profile.programs)
def transformation(init):
    return optax.GradientTransformation(init, lambda updates, state, params=None: (updates, state))
"""

PIPELINES = """
def stage(params, x): return jnp.tanh(x @ params["w"] + params["b"])
def loss(params, x): return jnp.mean(stage(params, x) ** 2)
own = [host["layer 0"], host["layer 1"], host["layer 2"]]
def pipeline(optimizer=optax.adam(1e-3), **options): return Pipeline([stage, stage, loss], optimizer, 6, **options)
"""


def lines(code: str, **settings: str) -> list[str]:
    return python(BEGIN + code, **settings).stdout.splitlines()


def test_an_optimizers_first_state_is_one_program() -> None:
    """12 arrays, of which each would take two programs or more by itself."""
    out = lines(
        """
adam = optax.adam(1e-3)
everything = {"optimizer_state": True, "accumulators": True}
for init in (
    gradient_accumulation(adam, 4).init,
    gradient_accumulation(adam, 4, offload_optimizer_state=False).init,
    gradient_accumulation(adam, 4, offload_optimizer_state=everything, dtype=jnp.bfloat16).init,
    gradient_accumulation(adam, 4, shard_optimizer_state=True).init,
    offloaded(adam).init,
    sharded(adam, least_elements=8).init,
    offloaded(sharded(adam, least_elements=8)).init,
):
    here, there = jax.device_put(host), jax.device_put(host, NamedSharding(Mesh(np.array(ipus[:2]), ("x",)), PartitionSpec()))
    print(*(loads(lambda: init(own)) for own in (params, here, host)), loads(lambda: init(there)))
    print(loads(lambda: init(params)), loads(lambda: init(jax.device_put(host, ipus[1]))))
    print(*sorted({leaf.sharding.memory_kind for leaf in jax.tree.leaves(init(params))}))
"""
    )
    assert out[0::3] == ["1 1 0 1"] * 7  # of NumPy's arrays it is the program that has just run
    assert out[1::3] == ["1 0"] * 7  # the program of the beginning is loaded again, and then is there
    assert ["pinned_host" in kinds for kinds in out[2::3]] == [True, False, True, True, True, False, True]


@pytest.mark.slow
def test_pipelines_begin_with_one_program_per_ipu() -> None:
    """With replicas and auxiliary state, too."""
    out = lines(
        PIPELINES
        + """
clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
everything = {"optimizer_state": True, "accumulators": True, "parameters": True}
for options in (
    {"offload_optimizer_state": everything, "tied": [[(0, "b"), (1, "b")]], "optimizer": clipped},
    {"offload_optimizer_state": False}, {"optimizer": None}, {"device_mapping": [0, 1, 0]}, {"device_mapping": [0, 0, 0]},
):
    made = pipeline(**options)
    given = own, [jax.device_put(stage, ipu) for stage, ipu in zip(own, ipus)], jax.device_put(own, jax.devices("cpu")[0])
    print(loads(lambda: made.init(given[0])), *(loads(lambda: pipeline(**options).init(params)) for params in given[1:]))
def counting(function):
    return lambda params, aux, x: (function(params, x), {"seen": aux["seen"] + 1, "mean": aux["mean"]})
aux = [{"seen": 0, "mean": np.arange(3, dtype=np.float32)}] * 2
for options in {}, {"shard_optimizer_state": True}:
    with_aux = Pipeline([counting(stage), counting(loss)], optax.adam(1e-3), 4, replicas=2, device_mapping=[0, 1], **options)
    print(loads(lambda: with_aux.init(own[:2], aux)))
    state = with_aux.init(own[:2], aux)
    print(state.aux[0]["mean"].tolist(), state.aux[0]["seen"].tolist(), tuple(state.aux[1]["mean"].sharding.spec))
"""
    )
    assert out[:5] == ["3 3 3", "3 3 3", "0 0 0", "2 2 2", "1 1 1"]
    assert out[5:] == ["2", "[[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]] [0, 0] ('replica',)"] * 2  # on 2 IPUs a stage's is one load


SAME = """
def look(leaf):
    if not isinstance(leaf, jax.Array): return type(leaf), leaf.tolist() if isinstance(leaf, np.ndarray) else leaf
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    values = np.asarray(jax.random.key_data(leaf) if is_key else leaf).tolist()
    return leaf.shape, str(leaf.dtype), is_key or leaf.weak_type, leaf.committed, leaf.sharding, values
def differing(optimizer, params):
    ours, theirs = offloaded(optimizer, False).init(params), optimizer.init(params)  # which is all that the first one does
    given = {id(leaf) for leaf in jax.tree.leaves(params)}
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    pairs = list(zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True))
    assert all((id(one) in given) == (id(other) in given) for one, other in pairs)
    return [(look(one), look(other)) for one, other in pairs if look(one) != look(other)]
"""


WHERE = ("uncommitted", "first", "second", "numpy", "replicated", "divided", "mixed", "weak", "scalar", "several")


@pytest.mark.slow
def test_a_state_made_by_one_program_is_the_one_that_operations_make() -> None:
    """Wherever its parameters are, for optimizers of all kinds."""
    out = lines(
        SAME
        + """
mesh = Mesh(np.array(ipus[:2]), ("x",))
small = {"a": {"w": np.arange(24, dtype=np.float32).reshape(4, 6), "b": np.zeros(6, np.float32)}, "s": np.float32(2)}
small["n"] = np.arange(3, dtype=np.int32)
places = {
    "uncommitted": lambda: jax.device_put(small),
    "first": lambda: jax.device_put(small, ipus[0]),
    "second": lambda: jax.device_put(small, ipus[1]),
    "numpy": lambda: small,
    "replicated": lambda: jax.device_put(small, NamedSharding(mesh, PartitionSpec())),
    "divided": lambda: jax.tree.map(lambda x: jax.device_put(x, NamedSharding(mesh, PartitionSpec(*["x"] * (x.ndim > 1)))), small),
    "mixed": lambda: {**jax.device_put(small, ipus[1]), "s": jax.device_put(np.float32(2))},
    "weak": lambda: {**jax.device_put(small, ipus[1]), "s": jax.device_put(2.0, ipus[1]), "f": np.float32(3)},
    "scalar": lambda: jax.device_put(np.float32(1), ipus[1]),
    "several": lambda: {**jax.device_put(small, ipus[1]), "s": jax.device_put(np.float32(2), ipus[2])},
}
def others(tree):
    captured = jax.tree.leaves(tree)[-1]
    return {
        "function": len, "text": "text", "number": 1.5, "none": None, "truth": True, "numpy": np.arange(3), "given": captured, "tree": tree,
        "weak": jnp.asarray(2), "from numpy": jnp.asarray(np.arange(3)), "ones": jnp.ones(3), "twice": jax.tree.map(lambda x: x * 2, tree),
        "key": jax.random.split(jax.random.key(3)), "rounded": jnp.asarray(1e-3, jnp.bfloat16), "range": jnp.arange(4), "int8": jnp.int8(5),
        "full": jnp.full((2,), 1e-3), "like": jax.tree.map(lambda x: jnp.zeros_like(x, dtype=jnp.bfloat16), tree),
    }
def looking(tree):
    return jnp.zeros(3) if float(np.sum(jax.tree.leaves(tree)[0])) >= 0 else jnp.ones(3)
def asking(tree):
    return jax.tree.map(lambda x: jax.device_put(np.zeros(2), x.sharding) if isinstance(x, jax.Array) else 0, tree)
large = lambda tree: jax.tree.map(lambda x: "matrix" if jnp.ndim(x) > 1 else "rest", tree)
def optimizers(params):
    some = [
        optax.adam(1e-3), optax.sgd(optax.constant_schedule(0.1), momentum=0.9), optax.adafactor(1e-3, min_dim_size_to_factor=2),
        optax.masked(optax.adam(1e-3), lambda tree: jax.tree.map(lambda x: jnp.ndim(x) > 1, tree)),
        optax.add_noise(0.1, 0.1, 0), optax.ema(0.9),
        optax.lion(1e-3), optax.multi_transform({"matrix": optax.adam(1e-3), "rest": optax.sgd(0.1)}, large),
        optax.MultiSteps(optax.adam(1e-3), 3).gradient_transformation(), transformation(looking), transformation(asking),
    ]
    if isinstance(params, jax.Array): return some
    return [*some, optax.inject_hyperparams(optax.adam)(1e-3), optax.adam(1e-3, mu_dtype=jnp.bfloat16), transformation(others)]
for where, place in places.items():
    params = place()
    for optimizer in optimizers(params): print(where, differing(optimizer, params))
"""
    )
    assert out == [f"{where} []" for where in WHERE for _ in range(11 if where == "scalar" else 14)]


def test_an_init_with_effects_has_them_once_at_each_call_and_one_that_cannot_be_traced_runs_operation_by_operation() -> None:
    """An error is raised once."""
    out = lines(
        """
calls = []
def init(params):
    calls.append(len(calls))
    jax.debug.callback(lambda: print("called"))
    return jnp.full((2,), len(calls), jnp.float32), jnp.zeros_like(params)
for _ in range(2):
    print(loads(lambda: offloaded(transformation(init), False).init(params["layer 0"]["w"])), calls)
    print(offloaded(transformation(init), False).init(params["layer 0"]["w"])[0].tolist())
jax.effects_barrier()
def looking(params):
    return jnp.zeros(3) if float(params.sum()) > 0 else jnp.ones(3)
print(offloaded(transformation(looking), False).init(jax.device_put(np.ones(3, np.float32))).tolist())
def wrong(params):
    raise ValueError("no state for this")
try:
    offloaded(transformation(wrong), False).init(params)
except ValueError as error:
    print(error, error.__context__)
"""
    )
    assert out.count("called") == 4
    [*effects, looking, wrong] = [line for line in out if line != "called"]
    assert effects == ["2 [0]", "[2.0, 2.0]", "2 [0, 1, 2]", "[4.0, 4.0]"]
    assert (looking, wrong) == ("[0.0, 0.0, 0.0]", "no state for this None")
