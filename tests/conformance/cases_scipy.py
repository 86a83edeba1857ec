"""jax.scipy: functions made of many operations, each jitted as one program."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.cluster.vq
import jax.scipy.integrate
import jax.scipy.interpolate
import jax.scipy.ndimage
import jax.scipy.optimize
import jax.scipy.signal
import jax.scipy.spatial.transform
import jax.scipy.special
import jax.scipy.stats
import numpy as np

from .case import LAPACK, real, whole
from .cases_library import program


def scipy_stats(x: jax.Array) -> list[Any]:
    stats = jax.scipy.stats
    return [
        stats.norm.logpdf(x),
        stats.norm.cdf(x),
        stats.norm.ppf(x),
        stats.gamma.logpdf(x, 2.0),
        stats.beta.logpdf(x, 2.0, 3.0),
        stats.t.logpdf(x, 4.0),
        stats.expon.logpdf(x),
        stats.cauchy.logpdf(x),
        stats.laplace.logpdf(x),
        stats.uniform.logpdf(x),
        stats.logistic.logpdf(x),
        stats.poisson.logpmf(jnp.arange(3), 2.0),
        stats.bernoulli.logpmf(jnp.arange(2), 0.3),
    ]


CASES = (
    program(
        "scipy.special",
        lambda x: (
            [
                getattr(jax.scipy.special, name)(x)
                for name in ("i0", "i0e", "i1", "i1e", "ndtr", "ndtri", "log_ndtr", "logit", "expit", "entr")
            ]
            + [
                jax.scipy.special.xlogy(x, 2 * x),
                jax.scipy.special.xlog1py(x, x),
                jax.scipy.special.logsumexp(x),
                jax.scipy.special.multigammaln(x + 2, 2),
            ]
        ),
        real(7, low=0.1, high=0.9),
        grad=(0,),
    ),
    program(
        "scipy.special.exp1 and expi",
        lambda x: (jax.scipy.special.exp1(x), jax.scipy.special.expi(x)),
        real(7, low=0.1, high=3.0),
        grad=(0,),
        long=True,
    ),
    program(
        "scipy.special, two arguments",
        lambda a, b: (
            jax.scipy.special.beta(a, b),
            jax.scipy.special.betaln(a, b),
            jax.scipy.special.gammainc(a, b),
            jax.scipy.special.gammaincc(a, b),
            jax.scipy.special.rel_entr(a, b),
            jax.scipy.special.kl_div(a, b),
        ),
        real(5, low=0.2, high=3.0),
        real(5, low=0.2, high=3.0),
        long=True,
    ),
    program(
        "scipy.special.sph_harm_y",
        lambda n, m, t: jax.scipy.special.sph_harm_y(n, m, t, t, n_max=3),
        whole(4, low=2, high=4),
        whole(4, low=0, high=2),
        real(4),
    ),
    program("scipy.stats", scipy_stats, real(6, low=0.1, high=0.9), grad=(0,)),
    program(
        "scipy.stats.gaussian_kde",
        lambda data, x: jax.scipy.stats.gaussian_kde(data)(x),
        real(20),
        real(5),
        rtol=1e-5,
        why=LAPACK,
        long=True,
    ),
    program(
        "scipy.stats ranks",
        lambda x: (jax.scipy.stats.rankdata(x), jax.scipy.stats.mode(x, keepdims=False), jax.scipy.stats.sem(x)),
        whole(15),
    ),
    program(
        "scipy.signal",
        lambda x, w: (
            jax.scipy.signal.convolve(x, w, mode="same"),
            jax.scipy.signal.fftconvolve(x, w),
            jax.scipy.signal.correlate(x, w),
            jax.scipy.signal.detrend(x),
        ),
        real(16),
        real(5),
        grad=(0, 1),
        rtol=1e-5,
        atol=1e-6,
        why=LAPACK,
        long=True,
    ),
    program(
        "scipy.signal spectra", lambda x: (jax.scipy.signal.stft(x, nperseg=16)[2], jax.scipy.signal.welch(x, nperseg=16)[1]), real(64)
    ),
    program(
        "scipy.ndimage.map_coordinates",
        lambda x, at: jax.scipy.ndimage.map_coordinates(x, [at, at], order=1),
        real(5, 6),
        real(7, low=0, high=4),
        grad=(0, 1),
    ),
    program(
        "scipy.interpolate",
        lambda y, at: jax.scipy.interpolate.RegularGridInterpolator((jnp.arange(6.0),), y)(at),
        real(6),
        real(4, low=0.1, high=4.9),
    ),
    program("scipy.integrate.trapezoid", lambda y: jax.scipy.integrate.trapezoid(y, dx=0.1), real(3, 9), grad=(0,)),
    program(
        "scipy.optimize.minimize",
        lambda x: jax.scipy.optimize.minimize(lambda v: jnp.sum((v - 1.0) ** 2 * np.arange(1.0, 4.0)), x, method="BFGS").x,
        real(3),
        rtol=1e-4,
        why="a line search amplifies the last bit of each dot product",
        long=True,
    ),
    program("scipy.cluster.vq", lambda x, book: jax.scipy.cluster.vq.vq(x, book), real(12, 3), real(4, 3)),
    program("scipy.spatial.Rotation", lambda q: jax.scipy.spatial.transform.Rotation.from_quat(q).as_matrix(), real(3, 4), grad=(0,)),
    program(
        "scipy.fft",
        lambda x: (jax.scipy.fft.dct(x), jax.scipy.fft.idct(x), jax.scipy.fft.dctn(x), jax.scipy.fft.idctn(x)),
        real(4, 8),
        grad=(0,),
    ),
    program(
        "scipy.linalg.expm of a small step",
        lambda x: jax.scipy.linalg.expm(x),
        real(4, 4),
        grad=(0,),
        rtol=1e-4,
        atol=1e-5,
        why=LAPACK,
        long=True,
    ),
)
