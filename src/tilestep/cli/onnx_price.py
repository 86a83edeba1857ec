"""What an ONNX model would take on an emulated IPU, found without data in a dry run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tilestep.advice import findings
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.model import OnnxModel
from tilestep.profiling.profiles import dry_run, profile
from tilestep.settings import read_settings
from tilestep.train.untyped import jax

if TYPE_CHECKING:
    from tilestep.views.profile import Profile

_TIMED_RUNS: Final = 8  # the throughput is their mean
_HOST_LINK: Final = "host link"
_OF_PROGRAMS: Final = ("idle", "unused", "set-up", "streaming")  # kinds of findings about a host program, which a price has none of
_LEARNING_RATE: Final = 0.01  # a training step ends with gradient descent


@dataclass(frozen=True, kw_only=True)
class Price:
    """What one size of inputs takes."""

    batch: int | None  # samples of a run; None if the model has no dimension for them that could change
    latency_s: float  # emulated seconds from the call of a program that is loaded to its results on the host
    run_s: float  # emulated seconds per run where the host calls without waiting
    report: Profile  # the profile of one call

    @property
    def throughput(self) -> float:
        """Samples per emulated second; runs where there is no batch."""
        return (self.batch or 1) / self.run_s

    @property
    def program(self) -> Any:
        """The model's program."""
        return max(self.report.programs, key=lambda program: program.cycles.total)

    @property
    def limit(self) -> str:
        """What takes most of the program's time, and which kind of operation most of that."""
        kind, share = self._slowest()
        families = [family for family in self.program.families if family.total]
        text = f"{kind} {share:.0%}"
        return text if kind == _HOST_LINK or not families else f"{text}, most of it {families[0].family}"

    @property
    def advice(self) -> list[str]:
        """What to do about it."""
        found = [finding for finding in findings(self.report) if finding.kind not in _OF_PROGRAMS]
        memory, others = ([finding.text for finding in found if (finding.kind == "memory") is wanted] for wanted in (True, False))
        return [*memory, *self._of_host_link(), *others]

    def _of_host_link(self) -> list[str]:
        kind, share = self._slowest()
        if kind != _HOST_LINK:
            return []
        program, machine = self.program, read_settings().machine
        sent = machine.host_cycles(to_ipus=program.host_bytes_in, to_host=program.host_bytes_out)
        if 2 * sent < program.cycles.host:
            way_out = "each transfer has a latency" + ("" if self.batch is None else ", which the samples of a larger batch share")
        elif program.host_bytes_in >= program.host_bytes_out:
            way_out = "send fewer bytes, such as those of an image instead of floats"
        else:
            way_out = "give back fewer bytes, such as a class instead of all scores"
        return [f"Inputs and results are on the host link for {100 * share:.0f} % of the program's time: {way_out}."]

    def _slowest(self) -> tuple[str, float]:
        """What takes most of the program's time, and its share."""
        cycles = self.program.cycles
        kinds = {"compute": cycles.compute, "exchange": cycles.exchange, "sync": cycles.sync, _HOST_LINK: cycles.host}
        kind = max(kinds, key=lambda name: kinds[name])
        return kind, kinds[kind] / max(1, cycles.total)


def price(model: OnnxModel, inputs: Sequence[Any], *, batch: int | None, loss: str | None, trip_count: int | None) -> Price:
    """Prices runs of a model whose weights are on the IPU.

    Args:
        inputs: shape and dtype of each input.
        loss: for a model for training: the output that is differentiated; None: the mean of all.
        trip_count: of loops whose end depends on data.

    Raises: OnnxError for an output that cannot be differentiated, for a model that does nothing, and as the model's function does.
    """
    step = _training_step(model, loss) if model.training else _inference(model)
    program: Callable[..., Any] = jax.jit(step, donate_argnums=0, compiler_options={"ipu_fusion": "none"})  # as PopART
    arrays = [np.broadcast_to(np.zeros((), spec.dtype), spec.shape) for spec in inputs]
    weights: Any = (model.params, model.state)
    with dry_run(trip_count=trip_count), jax.default_device(jax.devices("ipu")[0]):
        weights, results = program(weights, *arrays)
        jax.block_until_ready((weights, results))
        with profile() as one:
            weights, results = program(weights, *arrays)
            jax.block_until_ready((weights, results))
        with profile() as several:
            for _ in range(_TIMED_RUNS):
                weights, results = program(weights, *arrays)
            jax.block_until_ready((weights, results))
    if not several.emulated_s:
        raise OnnxError("the model computes nothing when it runs, and gives nothing back: there is nothing to price")
    return Price(batch=batch, latency_s=one.emulated_s, run_s=several.emulated_s / _TIMED_RUNS, report=one.profile)


def _inference(model: OnnxModel) -> Callable[..., Any]:
    """The model, whose weights stay on the device: they are donated, and are results."""

    def step(weights: tuple[Any, Any], *inputs: Any) -> tuple[Any, Any]:
        return weights, model.fn(weights[0], *inputs, key=jax.random.key(0) if model.draws else None)

    step.__name__ = model.fn.__name__
    return step


def _training_step(model: OnnxModel, loss: str | None) -> Callable[..., Any]:
    """One step of plain gradient descent. It returns the loss."""
    names = [spec.name for spec in model.outputs]
    if loss is not None and loss not in names:
        raise OnnxError(f"--loss is '{loss}', and the model's outputs are {', '.join(names)}")

    def step(weights: tuple[Any, Any], *inputs: Any) -> tuple[Any, Any]:
        params, state = weights

        def objective(params: Mapping[str, Any]) -> tuple[Any, Any]:
            outputs, new_state = model.fn(params, state, *inputs, key=jax.random.key(0) if model.draws else None)
            wanted = outputs if loss is None else (outputs[names.index(loss)],)
            leaves = [leaf for leaf in jax.tree.leaves(wanted) if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)]
            if not leaves:
                which = "none of the outputs has" if loss is None else f"output '{loss}' does not have"
                raise OnnxError(f"{which} floating-point numbers, so there are no gradients: name another by --loss")
            return sum(jax.numpy.mean(leaf.astype(np.float32)) for leaf in leaves), new_state

        (value, new_state), gradients = jax.value_and_grad(objective, has_aux=True)(params)
        new = {name: params[name] - (_LEARNING_RATE * gradients[name]).astype(params[name].dtype) for name in params}
        return (new, new_state), value

    step.__name__ = f"{model.fn.__name__}_step"
    return step
