"""A session's random numbers: their seed and their state."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from tilestep.popart.exceptions import popart_runtime_error
from tilestep.popart.log import warn
from tilestep.popart.session.calls.prepared import Prepared
from tilestep.popart.session.keys import WORDS, key_and_count, key_of, words_of


class RandomCalls(Prepared):
    """Methods about random numbers."""

    def setRandomSeed(self, seedValue: int) -> None:
        """Starts the session's random numbers again; does nothing in a session without. Args: seedValue: 0 to 2**64 - 1."""
        if self._has_none("set"):
            return
        carry = self._require_prepared("setRandomSeedFromHost(uint64_t)")
        seed = int(seedValue)
        if not 0 <= seed < 1 << 64:
            raise TypeError(f"setRandomSeed: {seedValue} is outside of 0 to 2**64 - 1")
        self._seed = seed
        self._carry = carry._replace(key=key_of(self._seed), count=jax.numpy.uint32(0))

    def getRandomSeed(self) -> int:
        """The seed that was set last; 0 if none was, and in a session without random numbers."""
        if self._has_none("get"):
            return 0
        self._require_prepared("getRandomSeedToHost()")
        return self._seed

    def getRNGState(self) -> list[int]:
        """The state of the random numbers: three numbers of 32 bits; none with synthetic data.

        Raises: popart_runtime_error without `enableLoadAndOffloadRNGState`.
        """
        self._require_state_option("get")
        carry = self._require_prepared("getRngStateToHost")
        return words_of(carry.key, carry.count) if self._synthetic.off else []

    def setRNGState(self, rngValue: Sequence[int]) -> None:
        """Sets what `getRNGState` gave; does nothing with synthetic data.

        Raises: popart_runtime_error for another number of values, or without the option.
        """
        self._require_state_option("set")
        carry = self._require_prepared("setRngStateFromHost")
        if not self._synthetic.off:
            return
        if len(rngValue) != WORDS:
            raise popart_runtime_error(f"Devicex::setRngStateValue received rngState of size {len(rngValue)}; was expecting size {WORDS}")
        key, count = key_and_count(rngValue)
        self._carry = carry._replace(key=key, count=count)

    def _has_none(self, verb: str) -> bool:
        """Whether the session has no random numbers, which a line of the log says."""
        none = not self._plan.graph.draws and not self._options.enableStochasticRounding
        if none:
            warn(f"Trying to {verb} the random seed, but this session has no random behaviour. Doing nothing.")
        return none

    def _require_state_option(self, verb: str) -> None:
        if not self._options.enableLoadAndOffloadRNGState:
            raise popart_runtime_error(
                f"Trying to {verb} the RNG state, but the session option enableLoadAndOffloadRNGState must be set to True."
            )
