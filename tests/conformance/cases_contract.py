"""Contractions: dot products of every kind, convolutions of every kind, Fourier transforms."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .case import OpCase, cplx, real, since, whole
from .cases_elementwise import COMPLEX, FLOATS, SIGNED, UNSIGNED, every_dtype

DotPreset = lax.DotAlgorithmPreset


def contract(contracting: Any, batch: Any = ((), ()), **options: Any) -> Callable[..., Any]:
    return lambda a, b: lax.dot_general(a, b, (contracting, batch), **options)


def conv(strides: tuple[int, ...], padding: Any, **options: Any) -> Callable[..., Any]:
    return partial(lax.conv_general_dilated, window_strides=strides, padding=padding, **options)


def matrices(dtypes: Any, draw: Any) -> list[Any]:
    return [draw(*shape, dtype=dtype) for dtype in dtypes for shape in ((3, 4), (4, 5))]


DOTS = (
    *every_dtype("dot_general", contract(((1,), (0,))), matrices(FLOATS, real), arity=2),
    *every_dtype("dot_general, complex", contract(((1,), (0,))), matrices(COMPLEX, cplx), arity=2),
    *every_dtype("dot_general, integers", contract(((1,), (0,))), matrices(SIGNED + UNSIGNED, partial(whole, low=0)), arity=2),
    OpCase("dot_general, batched", contract(((3,), (1,)), ((0, 1), (0, 2))), real(2, 3, 4, 5), real(2, 5, 3, 6), grad=(0, 1)),
    OpCase("dot_general, two contractions", contract(((1, 2), (2, 0))), real(3, 4, 5), real(5, 6, 4), grad=(0, 1)),
    OpCase("dot_general, outer", contract(((), ())), real(3), real(4), grad=(0, 1)),
    OpCase("dot_general, vectors", contract(((0,), (0,))), real(7), real(7), grad=(0, 1)),
    OpCase("dot_general, matrix and vector", contract(((1,), (0,))), real(33, 65), real(65), grad=(0, 1)),
    OpCase("dot_general, larger", contract(((1,), (0,))), real(130, 70), real(70, 90), grad=(0, 1)),
    OpCase("dot_general, nothing to contract", contract(((1,), (0,))), np.zeros((3, 0), np.float32), np.zeros((0, 4), np.float32)),
    OpCase(
        "dot_general, bfloat16 to float32",
        contract(((1,), (0,)), preferred_element_type=np.float32),
        real(8, 16, dtype=jnp.bfloat16),
        real(16, 4, dtype=jnp.bfloat16),
        grad=(0, 1),
    ),
    OpCase(
        "dot_general, int8 to int32",
        contract(((1,), (0,)), preferred_element_type=np.int32),
        whole(8, 16, dtype=np.int8),
        whole(16, 4, dtype=np.int8),
    ),
    OpCase("dot_general, mixed types", contract(((1,), (0,)), preferred_element_type=np.float32), real(4, 6, dtype=np.float16), real(6, 3)),
    OpCase("dot_general, highest precision", contract(((1,), (0,)), precision=lax.Precision.HIGHEST), real(4, 6), real(6, 3), grad=(0, 1)),
    OpCase("dot_general, an algorithm", contract(((1,), (0,)), precision=DotPreset.F32_F32_F32), real(4, 6), real(6, 3), grad=(0,)),
    OpCase("ragged_dot", lax.ragged_dot, real(7, 4), real(3, 4, 5), np.array([2, 4, 1], np.int32), grad=(0, 1)),
    OpCase("scaled_dot", lambda a, b: lax.scaled_dot(a, b, lhs_scale=None, rhs_scale=None), real(1, 8, 32), real(1, 32, 8), only="jit"),
    *(
        [OpCase("scaled_matmul", jax.nn.scaled_matmul, real(2, 4, 32), real(2, 5, 32), real(2, 4, 2, low=0.5), real(2, 5, 2, low=0.5))]
        if since(0, 12)
        else []
    ),
)

CONVS = (
    *every_dtype("conv, 1-d", conv((1,), "SAME"), [real(*s, dtype=d) for d in FLOATS for s in ((2, 3, 10), (4, 3, 3))], arity=2),
    OpCase("conv, 2-d", conv((1, 1), "VALID"), real(2, 3, 8, 7), real(4, 3, 3, 2), grad=(0, 1)),
    OpCase("conv, 3-d", conv((1, 1, 1), "SAME"), real(1, 2, 4, 5, 6), real(3, 2, 2, 3, 1), grad=(0, 1)),
    OpCase("conv, strided", conv((2, 3), "SAME"), real(2, 3, 9, 8), real(4, 3, 3, 3), grad=(0, 1)),
    OpCase("conv, padded unevenly", conv((1, 1), ((2, 0), (-1, 3))), real(1, 2, 6, 6), real(3, 2, 3, 3), grad=(0, 1)),
    OpCase("conv, window dilated", conv((1, 1), "SAME", rhs_dilation=(2, 3)), real(1, 2, 9, 9), real(3, 2, 3, 3), grad=(0, 1)),
    OpCase("conv, input dilated", conv((1, 1), ((1, 2), (2, 1)), lhs_dilation=(2, 2)), real(1, 2, 5, 5), real(3, 2, 3, 3), grad=(0, 1)),
    OpCase("conv, grouped features", conv((1, 1), "SAME", feature_group_count=2), real(1, 4, 6, 6), real(6, 2, 3, 3), grad=(0, 1)),
    OpCase("conv, depthwise", conv((1, 1), "SAME", feature_group_count=4), real(2, 4, 6, 6), real(8, 1, 3, 3), grad=(0, 1)),
    OpCase("conv, grouped batch", conv((1, 1), "SAME", batch_group_count=2), real(4, 3, 6, 6), real(6, 3, 3, 3), grad=(0, 1)),
    OpCase(
        "conv, channels last",
        conv((1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        real(2, 8, 8, 3),
        real(3, 3, 3, 5),
        grad=(0, 1),
    ),
    OpCase(
        "conv, one by one",
        conv((1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        real(2, 5, 5, 8),
        real(1, 1, 8, 4),
        grad=(0, 1),
    ),
    OpCase("conv, complex", conv((1,), "SAME"), cplx(1, 2, 8), cplx(3, 2, 3), grad=(0, 1)),
    OpCase(
        "conv, integers",
        conv((1, 1), "SAME", preferred_element_type=np.int32),
        whole(1, 2, 6, 6, dtype=np.int8),
        whole(3, 2, 3, 3, dtype=np.int8),
    ),
    OpCase("conv_transpose", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), real(1, 5, 5, 3), real(3, 3, 3, 4), grad=(0, 1)),
    OpCase(
        "conv, local", lambda x, w: lax.conv_general_dilated_local(x, w, (1,), "VALID", (3,)), real(1, 2, 8), real(4, 6, 6), grad=(0, 1)
    ),
    OpCase("conv, patches", lambda x: lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "SAME"), real(1, 2, 6, 6), grad=(0,)),
    OpCase("conv under vmap", jax.vmap(conv((1,), "SAME")), real(3, 1, 2, 8), real(3, 4, 2, 3), grad=(0, 1), only="jit"),
)

FFTS = (
    OpCase("fft", jnp.fft.fft, cplx(3, 12), grad=(0,)),
    OpCase("ifft", jnp.fft.ifft, cplx(3, 12), grad=(0,)),
    OpCase("rfft", jnp.fft.rfft, real(3, 11), grad=(0,)),
    OpCase("irfft", lambda x: jnp.fft.irfft(x, 11), cplx(3, 6), grad=(0,)),
    OpCase("fft, 2-d and 3-d", lambda x: (jnp.fft.fft2(x), jnp.fft.ifftn(x)), cplx(3, 4, 5), grad=(0,)),
    OpCase(
        "rfft and irfft, 3-d",
        lambda x: jnp.fft.irfftn(jnp.fft.rfftn(x) * 2, x.shape),
        real(3, 4, 6),
        grad=(0,),
    ),
    OpCase("fft, double", jnp.fft.fft, cplx(16, dtype=np.complex128), grad=(0,), x64=True),
    OpCase("rfft, double", jnp.fft.rfft, real(16, dtype=np.float64), grad=(0,), x64=True),
)

CASES = DOTS + CONVS + FFTS
