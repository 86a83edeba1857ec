"""A chain of NumPyro's NUTS on the eight schools (Rubin, 1981)."""

import json

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import LocScaleReparam

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


@numpyro.handlers.reparam(config={"theta": LocScaleReparam(0)})
def schools(errors: np.ndarray, effects: np.ndarray) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", len(errors)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("seen", dist.Normal(theta, errors), obs=effects)


def main() -> None:
    chain = MCMC(NUTS(schools), num_warmup=60, num_samples=60, progress_bar=False)
    chain.run(jax.random.key(0), ERRORS, EFFECTS, extra_fields=("num_steps", "accept_prob"))
    samples, extra = chain.get_samples(), chain.get_extra_fields()
    found = {"mu": samples["mu"], "tau": samples["tau"], "theta": samples["theta"].mean(0), "accepted": extra["accept_prob"]}
    printed = {name: np.asarray(values, np.float64).tolist() for name, values in found.items()}
    print(json.dumps(printed | {"steps": np.asarray(extra["num_steps"]).tolist()}))


if __name__ == "__main__":
    main()
