"""No primitive of JAX is forgotten: each is in the jaxpr of a row, or stands below with a reason."""

import importlib

import jax
import pytest
from jax._src.interpreters import mlir

from .case import since
from .evaluate import primitives
from .rows import CASES, EVERY_DTYPE, together

# Modules whose import registers primitives.
MODULES = (
    "jax.experimental.buffer_callback",
    "jax.experimental.checkify",
    "jax.experimental.colocated_python",
    "jax.experimental.custom_partitioning",
    "jax.experimental.fused",
    "jax.experimental.key_reuse",
    "jax.experimental.multihost_utils",
    "jax.experimental.ode",
    "jax.experimental.rnn",
    "jax.experimental.scheduling_groups",
    "jax.experimental.sparse",
    "jax.experimental.sparse.linalg",
    "jax.experimental.xla_metadata",
    "jax.export",
    "jax.ffi",
    "jax.nn",
    "jax.scipy.fft",
    "jax.scipy.linalg",
    "jax.scipy.ndimage",
    "jax.scipy.signal",
    "jax.scipy.special",
    "jax.scipy.stats",
    "tilestep.train",
)
FEED = "tilestep.train's own, which need a host beside them: tests/behaviour/test_feeds.py"
CUDA = "JAX lowers it for CUDA only; on any platform but a GPU it raises"
PALLAS = "part of Pallas, whose kernels have no CPU lowering"
NO_CPU = "XLA:CPU cannot compile it"
EXPORT = "stands for a symbolic size inside exported programs, which a row runs"
BITS = "an inner step of lowering random_bits, which rows have for every generator"
ORDER = "carries an order of effects and no value; the ordered callbacks' rows have that order"
EXEMPT: dict[str, str] = {
    "after_all": ORDER,
    "broadcast_to": "Pallas' own spelling of broadcast_in_dim",
    "buffer_callback": "writes into its results: tests/behaviour/test_like_cpu.py",
    "call": "the oldest form of jit; no function of JAX makes one any more",
    "check": "becomes values before anything is lowered: the checkify row",
    "closed_call": "as 'call', and inlined when references are discharged: the run_state row",
    "core_map": PALLAS,
    "create_linear": PALLAS,
    "create_token": ORDER,
    "csr_spmm": "an inner step of lowering csr_matmat, which a row has",
    "csr_spmv": "an inner step of lowering csr_matvec, which a row has",
    "custom_lin": "lives between linearisation and transposition only",
    "dim_as_value": EXPORT,
    "dimension_size": EXPORT,
    "dot_product_attention_bwd_wrapper": CUDA,
    "dot_product_attention_fp8_bwd_wrapper": CUDA,
    "dot_product_attention_fp8_fwd_wrapper": CUDA,
    "dot_product_attention_fwd_wrapper": CUDA,
    "eq_to": "an inner step of lowering sort with several keys, which a row has",
    "from_edtype": "conversion of extended types that programs define themselves; no operation at all when lowered",
    "geqp3": "an inner step of lowering qr with pivots, which a row has",
    "infeed": FEED,
    "iota_2x32_shape": BITS,
    "mpmd_map": PALLAS,
    "multiple_of": PALLAS,
    "outfeed": FEED,
    "pallas_call": PALLAS,
    "pbroadcast_done": NO_CPU,
    "philox2x32": BITS,
    "philox4x32": BITS,
    "pin": PALLAS,
    "precv": NO_CPU,
    "psend": NO_CPU,
    "ragged_all_to_all": NO_CPU,
    "relayout": "belongs to explicit layouts, for which JAX has no public name yet",
    "rng_uniform": "draws other numbers at each call, on the CPU too",
    "run_scoped": PALLAS,
    "scaled_matmul": "an inner step of lowering scaled_matmul_wrapper, which a row has",
    **({} if since(0, 12) else {"scaled_matmul_wrapper": CUDA}),
    "shape_assertion": EXPORT,
    "stage": "turns a constant into an array in eager mode, which a row does; never in a jaxpr",
    "threefry4x32": BITS,
    "tie": "made and removed while a linearised function is transposed",
    "to_edtype": "as from_edtype",
    "unpin": PALLAS,
    "unreachable": "marks what must not be transposed, and raises when it is",
    "watched": "a mark of tilestep.train, which a pipeline takes out before anything is lowered: tests/unit/train/pipeline/test_watch.py",
    "with_memory_space_constraint": PALLAS,
}


@pytest.fixture(scope="module")
def registered() -> set[str]:
    """Names of all primitives that JAX can lower for the CPU."""
    for module in MODULES:
        importlib.import_module(module)
    return {primitive.name for table in (mlir._lowerings, mlir._platform_specific_lowerings["cpu"]) for primitive in table}


@pytest.fixture(scope="module")
def covered(cpus: list[jax.Device]) -> set[str]:
    """In rows that `make test` compiles, which are traced for both tests once, and in long rows."""
    long = [(case,) for case in CASES if case.long and not case.name.endswith(EVERY_DTYPE)]
    return set().union(*(primitives(cases, cpus) for cases in [*(batch.cases for batch in together()), *long]))


@pytest.mark.slow
def test_every_primitive_is_in_a_row_or_exempt_with_a_reason(registered: set[str], covered: set[str]) -> None:
    assert sorted(registered - covered - set(EXEMPT)) == []


@pytest.mark.slow
def test_no_primitive_is_exempt_although_a_row_has_it(covered: set[str]) -> None:
    assert sorted(covered & set(EXEMPT)) == []


def test_enough_primitives_are_found(registered: set[str]) -> None:
    """So that a registry that moved inside JAX cannot make this file pass."""
    assert len(registered) > 200
