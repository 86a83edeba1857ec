"""A model as a plain function of JAX, with its parameters beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, final

from tilestep.onnx.errors import OnnxError
from tilestep.onnx.function import ModelFunction, Trainable, require_bounds
from tilestep.onnx.interpreter.demand import statistics
from tilestep.onnx.reading.load import Source, load
from tilestep.onnx.stages.layers import MOST_LAYERS, Layers, layers_of
from tilestep.onnx.stages.stages import Stages, stages_of

MOST_FROZEN_WEIGHT_BYTES: Final = 1 << 30


def import_onnx(
    source: Source,
    *,
    training: bool = False,
    static: Collection[str] | Mapping[str, Any] = (),
    bounds: Mapping[str, int] | None = None,
    trainable: Trainable | None = None,
) -> OnnxModel:
    """Reads an ONNX model as a plain function of JAX with parameters.

    Args:
        source: a path, the bytes of a file, or a ModelProto. Data in other files are read from a path's folder only.
        training: whether batch norms take the batch's statistics, and dropout drops.
        static: names of inputs whose values are known when a program is made, besides those that the model needs so. A mapping gives
            the values as well, and these are no inputs any more.
        bounds: node's name or output's name -> most elements, for outputs whose length depends on values.
        trainable: names of the initialisers that are parameters, or a function of the name that says so, among all that can be: finite
            floating-point ones on whose values no shape depends, and that are no dropout's ratio. Others are constants, with `training`
            state. None: all through which an output has a gradient, but for those of masks and clips.

    Returns:
        The model.

    Raises:
        OSError: for a file that cannot be read.
        TypeError: for an argument of another type.
        OnnxError: for a damaged model, or a name that it does not have; UnsupportedOpError for operators without an implementation, all
            at once; UnsafeModelError for a model beyond bounds, or one that reads other files.
    """
    if not isinstance(training, bool):  # a caller's mistake
        raise TypeError(f"training is {training!r}: it must be True or False")
    loaded = load(source, lifting=True)
    return OnnxModel(loaded, training=training, static=static, bounds=require_bounds(bounds, loaded.graph), trainable=trainable)


@final
class OnnxModel(ModelFunction):
    """A model as a plain function of JAX. `import_onnx` makes it.

    `fn(params, *inputs, key=None)` returns a tuple of outputs. With `training` it is `fn(params, state, *inputs, key=None)`, and returns
    (outputs, new state). It may be compiled, differentiated, mapped over batches, divided over devices. Inputs are arrays by position;
    those of `static_inputs` are NumPy arrays, numbers, or tuples of them, never traced: put them into a closure, or give them as tuples
    for `static_argnums`, which are hashable by value.

    Attributes:
        fn: the function.
        params: its parameters by name: NumPy arrays, which are views of the file if they stand beside the model.
        state: the first state in training; empty otherwise.
        constants: other initialisers by name, and values that `static` gave.
        inputs: what the model declares of its inputs, in order.
        outputs: what it declares of its outputs.
        static_inputs: names of the inputs whose values must be known when a program is made.
        opset: versions of operators by domain; "" is ONNX's own.
    """

    def frozen(self) -> OnnxModel:
        """The same model whose weights are constants of its programs, which are faster and take longer to compile.

        Batch norms are folded into the convolutions before them, and products of one array by several matrices are one product.

        `params` is empty, so that `fn({}, *inputs)` runs it.

        Raises: OnnxError for a model for training, or one with more than 1 GiB of weights.
        """
        if self._training:
            raise OnnxError("a model for training can't be frozen: import it without training=True")
        size = sum(array.nbytes for array in self.params.values())
        if size > MOST_FROZEN_WEIGHT_BYTES:
            raise OnnxError(
                f"the weights have {size:,} B, and at most {MOST_FROZEN_WEIGHT_BYTES:,} B can be constants of a program: use fn(params)"
            )
        return OnnxModel(self._loaded, training=False, static=self._static, bounds=self._bounds, trainable=self._trainable, frozen=True)

    def stages(
        self,
        cuts: int | Sequence[str | Sequence[str]],
        *,
        sizes: Mapping[str, int] | None = None,
        loss: str | Callable[..., Any] | None = None,
        machine: str | None = None,
        training: bool | None = None,
    ) -> Stages:
        """Cuts the model into stages for `tilestep.train.Pipeline`.

        Args:
            cuts: for each cut the value that ends a stage, or several values; or the number of stages, which emulated cost balances.
            sizes: of named dimensions in one microbatch, or of single ones, as in {'x[2]': 48}. The stages are for these sizes.
            loss: the output that is the loss, or a function of the outputs and of what else a microbatch has, such as labels.
            machine: for the cost: a name of `tilestep machines` or a file. None: the process's own.
            training: for the cost: whether it includes backward. None: if the model is for training, or `loss` is given.

        Returns:
            `stages, params, tied = model.stages(...)` are what `Pipeline` and its `init` take. `aux` is for `init` in training.

        Raises: OnnxError for values that the model does not have, cuts that do not follow one another, or sizes that are missing.
        """
        return stages_of(self, cuts, sizes=sizes or {}, loss=loss, machine=machine, training=training)

    def layers(
        self,
        *,
        loss: str | Callable[..., Any] | None = None,
        others: Sequence[Any] = (),
        sizes: Mapping[str, int] | None = None,
        most: int = MOST_LAYERS,
    ) -> Layers:
        """Cuts the model into layers for `tilestep.plan_training`, where few bytes are passed on.

        Batch norms keep their statistics, which are no parameters here, and dropout drops nothing.

        Args:
            loss: the output that is the loss; or a function that returns it, of the outputs and of what else a microbatch has. None: the
                mean of all outputs.
            others: arrays or shapes `[samples, ...]` that a microbatch has besides the inputs, such as labels.
            sizes: of named dimensions, or of single ones as in {'x[2]': 48}. The first dimension of inputs counts samples: the planner
                chooses its size.
            most: layers.

        Returns:
            The layers, and what belongs to them.

        Raises: OnnxError for a model for training, inputs without samples, an output that there is not, or sizes that are missing.
        """
        kept = statistics(self.graph) & self.params.keys()
        model = self
        if kept:
            chosen = self.params.keys() - kept
            model = OnnxModel(self._loaded, training=self._training, static=self._static, bounds=self._bounds, trainable=chosen)
        return layers_of(model, loss=loss, others=others, sizes=sizes or {}, most=most)

    def summary(self, *, width: int = 100) -> str:
        """Text: inputs, outputs, parameters and operators. Args: width: columns."""
        from tilestep.onnx.describe import summary_of  # it brings rich with it

        return summary_of(self, width=width)
