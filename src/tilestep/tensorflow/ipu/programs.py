"""`tensorflow.python.ipu`'s `ipu_compiler`, `scopes` and `loops`: functions that become programs, and training loops in them."""

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilestep.tensorflow.compilation import compile as compile
from tilestep.tensorflow.compilation import node_name, require_compilation
from tilestep.tensorflow.ipu.queues import IPUInfeedQueue, as_arguments, fed
from tilestep.tensorflow.loop import Loop
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.tracing import Scope, Traced, current_scope, trace
from tilestep.tensorflow.untyped import Structure, Tensor, tf
from tilestep.train.numbers import whole_number


@contextlib.contextmanager
def ipu_scope(device: str) -> Iterator[None]:
    """Nodes inside are for the IPU. Variables made inside are resource variables. Args: device: such as "/device:IPU:0"."""
    if not isinstance(device, str):
        raise TypeError(f"ipu_scope got {device!r}: it must be the name of a device, such as '/device:IPU:0'")
    with graphs.resource_variables():
        yield


@contextlib.contextmanager
def ipu_shard(index: int | list[int]) -> Iterator[None]:
    """Nodes inside are for one IPU of the replica.

    A replica then has as many IPUs as there are shards. Its nodes run on the first of them: only stages of a pipeline run apart.
    """
    indices = [whole_number("index", each, least=0) for each in (index if isinstance(index, list | tuple) else [index])]
    if (scope := current_scope()) is not None:
        scope.shards = max(scope.shards, *(each + 1 for each in indices))
        if any(indices):
            warnings.warn(
                "ipu_shard divides the IPUs into replicas, but its operations run on the first IPU of each: stages of pipelining_ops."
                "pipeline run on IPUs of their own",
                UserWarning,
                stacklevel=3,
            )
    yield


def repeat(
    n: int, body: Callable[..., Any], inputs: Any = None, infeed_queue: IPUInfeedQueue | None = None, use_while_v1: bool = True
) -> Structure:
    """Runs `body` n times on the device, in one call of the host.

    Args:
        body: a function of the carried tensors, then of the infeed's element. It returns new carried tensors, then nodes.
        inputs: the first carried tensors.
        infeed_queue: gives each step an element: a tuple's items are further arguments, a dict's are keyword arguments.
    Returns: the last carried tensors: a list; the tensor if it is one; a node if there is none.
    Raises: TypeError, ValueError for a body that takes or returns other things; UnsupportedError outside of `ipu_compiler.compile`.
    """
    return _loop("loops.repeat", None, body, inputs, infeed_queue, whole_number("n", n, least=0))


def while_loop(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    inputs: Any = None,
    infeed_queue: IPUInfeedQueue | None = None,
    maximum_iterations: int | None = None,
    use_while_v1: bool = True,
) -> Structure:
    """Runs `body` on the device as long as `condition` of the carried tensors is true. Args, returns and raises: as `repeat`."""
    most = None if maximum_iterations is None else whole_number("maximum_iterations", maximum_iterations, least=0)
    return _loop("loops.while_loop", condition, body, inputs, infeed_queue, most)


def _loop(name: str, condition: Any, body: Callable[..., Any], inputs: Any, infeed: Any, steps: int | None) -> Structure:
    given = [] if inputs is None else list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    carried = [tf.convert_to_tensor(each) for each in given]
    scope = current_scope()
    if scope is not None and scope.is_body and (infeed is None or scope.compilation is None):
        if scope.compilation is None:
            condition, body = (each and graphs.with_graph_loops(each) for each in (condition, body))
        results = _inner(condition, body, carried, steps, infeed)
    else:
        compilation = require_compilation(name)
        _require_arguments(name, body, carried, infeed)
        function, specs = fed(body, infeed, len(carried))
        scope = Scope(compilation=compilation, is_body=True, accumulates=condition is None)
        traced = trace(node_name(body), function, [*carried, *specs], scope=scope)
        _require_results(name, traced, carried)
        test = None
        if condition is not None:
            test = trace(node_name(condition), condition, carried, scope=Scope(compilation=compilation, is_body=True))
        compilation.append(Loop(test, steps, traced, carried, infeed))
        results = compilation[-1].results
    return results[0] if len(results) == 1 else list(results) if results else tf.no_op(name=node_name(body))


def _require_arguments(name: str, body: Callable[..., Any], carried: Sequence[Tensor], infeed: Any) -> None:
    elements, keywords = ([], {}) if infeed is None else as_arguments(infeed.spec)
    with contextlib.suppress(ValueError):  # a body may not say what it takes
        try:
            inspect.signature(body).bind(*carried, *elements, **keywords)
        except TypeError as error:
            raise TypeError(
                f"{name}: body {node_name(body)} cannot take the {len(carried) + len(elements) + len(keywords)} arguments of a step "
                f"(carried tensors, then the infeed's): {error}"
            ) from None


def _require_results(name: str, traced: Traced, carried: Sequence[Tensor]) -> None:
    kinds = [isinstance(each, tf.Operation) for each in tf.nest.flatten(traced.returned) if each is not None]
    if kinds != sorted(kinds):
        raise ValueError(f"{name}: body {traced.name} returns a node before a tensor: carried tensors come first")
    got, wanted = ([f"{each.dtype.name}{each.shape.as_list()}" for each in tensors] for tensors in (traced.results, carried))
    if got != wanted:
        raise TypeError(
            f"{name}: body {traced.name} returns {len(got)} tensors of {got}, but the {len(wanted)} carried ones are {wanted}: return a "
            "new value of each"
        )


def _inner(condition: Any, body: Callable[..., Any], carried: list[Tensor], steps: int | None, infeed: Any) -> list[Tensor]:
    """A loop that is a part of the program around it: in a loop's body, or in a function of TensorFlow 2."""

    def test(index: Tensor, *values: Tensor) -> Tensor:
        goes_on = tf.constant(True) if condition is None else condition(*values)
        return goes_on if steps is None else tf.logical_and(goes_on, index < steps)

    def step(index: Tensor, *values: Tensor) -> list[Tensor]:
        elements, keywords = ([], {}) if infeed is None else as_arguments(infeed.next_element())
        flat = [each for each in tf.nest.flatten(body(*values, *elements, **keywords)) if each is not None]
        with tf.control_dependencies([each for each in flat if isinstance(each, tf.Operation)]):
            return [index + 1, *(tf.identity(each) for each in flat if not isinstance(each, tf.Operation))]

    return tf.while_loop(test, step, [tf.constant(0), *carried])[1:]
