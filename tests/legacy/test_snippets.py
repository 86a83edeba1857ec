"""The programs of two public documents run as they are printed, after `import tilestep.legacy` and a prelude that defines what they leave
free. Sources: github.com/graphcore-research/jax-experimental, `ipu/docs/performance.md` and `README.md`.
"""

import textwrap

import pytest

from tests.processes import python

pytestmark = pytest.mark.process

IMPORTS = """
from functools import partial
import jax
import jax.numpy as jnp
import numpy as np
from jax import grad, jit, lax
import tilestep.legacy
"""

# A linear classifier and plain gradient descent, by the interface of jax.example_libraries.optimizers.
PRELUDE = (
    IMPORTS
    + """
from jax.experimental import optimizers
opt_init, opt_update, get_params = optimizers.sgd(0.1)
batch_size = 16
inputs = np.random.default_rng(0).normal(size=(4, batch_size, 784)).astype(np.float32) / 28
labels = np.eye(10, dtype=np.float32)[np.argmax(inputs[..., :10], axis=-1)]
batches = list(zip(inputs, labels))
def loss(params, batch):
    pictures, wanted = batch
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(pictures @ params) * wanted, axis=1))
opt_state = opt_init(jnp.zeros((784, 10)))
def trained(opt_state):
    return np.asarray(get_params(opt_state))
"""
)

PLATFORM = """
from jax.config import config
config.FLAGS.jax_platform_name = 'cpu'
"""

UPDATE = """
@partial(jax.jit, backend="ipu")
def update(i, opt_state, batch):
    params = get_params(opt_state)
    return opt_update(i, grad(loss)(params, batch), opt_state)
"""

LOOP = """
for idx, batch in enumerate(batches):
    opt_state = update(idx, opt_state, batch)
"""

DONATED_UPDATE = """
@partial(jax.jit, backend="ipu", donate_argnums=(1,))
def update(i, opt_state, batch):
    params = get_params(opt_state)
    return opt_update(grad(loss)(params, batch), opt_state)
"""

INFEEDS = """
# Batch was an argument, now an infeed
batch_shape = (jax.ShapedArray((batch_size, 784), dtype=jnp.float32),
               jax.ShapedArray((batch_size, 10), dtype=jnp.float32))

def update_with_infeed(i, opt_state):
    # Using infeed to transfer batch.
    batch_token = lax.create_token()
    batch, _ = lax.infeed(batch_token, shape=batch_shape)
    # Use the same `update` function.
    return update(i, opt_state, batch)

@partial(jit, backend='ipu', donate_argnums=(2,))
def train_steps(start, end, opt_state):
    # Running epoch loop on device.
    opt_state = lax.fori_loop(start, end, update_with_infeed, opt_state)
    return opt_state

device = jax.devices(backend='ipu')[0]
# Pre-fill the infeed queue with batches.
for batch in batches:
    device.transfer_to_infeed(batch)
# Run first epoch.
opt_state = train_steps(0, len(batches), opt_state)
"""

MINIMAL = """
from functools import partial
import jax
import numpy as np

@partial(jax.jit, backend="ipu")
def ipu_function(data):
    return data**2 + 1

data = np.array([1, -2, 3], np.float32)
output = ipu_function(data)
print(output, output.device())
"""


PARTS = {
    "the minimal example prints values and device": [IMPORTS, MINIMAL],
    "the loop on the device trains as the one on the host": [
        PRELUDE,
        UPDATE,
        INFEEDS,
        "with_infeeds = trained(opt_state); opt_state = opt_init(jnp.zeros((784, 10)))",
        LOOP,
        "np.testing.assert_allclose(with_infeeds, trained(opt_state), rtol=1e-5, atol=1e-7)",
    ],
    "the argument that is missing with donation is a plain Python error": [
        PRELUDE,
        DONATED_UPDATE,
        "try:" + LOOP.replace("\n", "\n    "),
        "except TypeError as error: assert str(error) == \"sgd.<locals>.update() missing 1 required positional argument: 'opt_state'\"",
        "else: raise AssertionError('it runs')",
    ],
    "the loop with donation runs once the argument is there": [
        PRELUDE,
        "before = opt_state = jax.device_put(opt_state, jax.devices('ipu')[0])",
        DONATED_UPDATE.replace("opt_update(grad", "opt_update(i, grad"),
        LOOP,
        "assert jax.tree_leaves(before)[0].is_deleted()",
    ],
    "the loop on the host trains as on cpu": [
        PRELUDE,
        PLATFORM,
        "assert jax.devices()[0].platform == 'cpu' and config.FLAGS.jax_platform_name == 'cpu'",
        "start = trained(opt_state)",
        UPDATE,
        LOOP,
        "on_ipu = trained(opt_state); opt_state = opt_init(jnp.zeros((784, 10)))",
        UPDATE.replace('backend="ipu"', 'backend="cpu"'),
        LOOP,
        "assert np.abs(on_ipu - start).max() > 1e-4",
        "np.testing.assert_allclose(on_ipu, trained(opt_state), rtol=1e-5, atol=1e-7)",
    ],
}


def test_the_programs_run_as_they_are_printed() -> None:
    """In one process, each in a module of its own. The last one sets the platform."""
    programs = {name: "\n".join(map(textwrap.dedent, parts)) for name, parts in PARTS.items()}
    result = python("\n".join(f"exec(compile({text!r}, {name!r}, 'exec'), {{}})" for name, text in programs.items()))
    assert result.stdout == "[ 2.  5. 10.] IpuDevice(id=0, num_tiles=1472, version=ipu2)\n"


@pytest.mark.slow
@pytest.mark.parametrize("default", ["config.FLAGS.jax_platform_name = 'ipu'", 'config.FLAGS.jax_platforms = "ipu,cpu"'])
def test_each_flag_does_what_is_said_of_it(default: str) -> None:
    python(
        f"""
        import jax, tilestep.legacy
        from jax.config import config
        config.FLAGS.jax_ipu_use_model = True
        config.FLAGS.jax_ipu_model_num_tiles = 8
        {default}
        assert config.FLAGS.jax_ipu_use_model is True
        assert str(jax.devices()[0]) == 'IpuDevice(id=0, num_tiles=8, version=ipu2)', jax.devices()
        """
    )
