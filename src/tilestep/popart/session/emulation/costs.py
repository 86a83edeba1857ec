"""What each operator of a model takes on an IPU, planned by itself, and what IPUs take to pass tensors on and to wait for the host."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import jax
import jax.numpy as jnp
import numpy as np
import onnx

from tilestep.machine import changed_machine
from tilestep.machine.spec import MachineSpec
from tilestep.onnx.interpreter.demand import draws
from tilestep.onnx.interpreter.graph import Graph, Node, reads
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph
from tilestep.onnx.interpreter.values import is_known
from tilestep.options import PlanOptions
from tilestep.pjrt.programs.planning import plan_for
from tilestep.popart.session.model.graph import SessionGraph, named_errors
from tilestep.popart.session.model.tuning import around
from tilestep.profiling.plugin import initialize
from tilestep.sim.cycles.body import body_cost
from tilestep.sim.cycles.collective import pass_cost
from tilestep.sim.cycles.sync import host_set, sync_cycles
from tilestep.train.untyped import jax as _jax
from tilestep.units import cycles_from_seconds

Message = tuple[int, int, int]  # (from, to, bytes)
Values = Mapping[str, Any]  # by tensor name


@dataclass(frozen=True, kw_only=True)
class OperatorCost:
    """Cycles of one operator for one microbatch.

    Attributes:
        forward: of the operator itself.
        backward: of the gradients of its inputs, in training; 0 for an operator that no gradient passes.
    """

    forward: int
    backward: int

    @property
    def cycles(self) -> int:
        """Forward and backward."""
        return self.forward + self.backward


FREE: Final = OperatorCost(forward=0, backward=0)


def evaluated(graph: SessionGraph) -> Values:
    """Each tensor of a model: a known one as it is, others as jax.ShapeDtypeStruct, or trees of those."""
    found: dict[str, Any] = dict(graph.graph.initializers)
    variables = {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in graph.variables.items()}

    def run(variables: dict[str, Any], inputs: dict[str, Any], key: Any) -> None:
        def mark(name: str, value: Any) -> Any:
            found[name] = value if is_known(value) else jax.tree.map(_type_of, value)
            return value

        graph.run(variables, inputs, key, mark)

    jax.eval_shape(run, variables, dict(graph.inputs), jax.eval_shape(lambda: jax.random.key(0)))
    return found


def wanted_gradients(graph: SessionGraph, differentiable: Collection[str]) -> frozenset[str]:
    """The tensors whose gradient training needs: variables, and what depends on them. Nobody needs those of the model's inputs.

    Args: differentiable: tensors that have a gradient.
    """
    found = {name for name in graph.variables if name in differentiable}
    for node in graph.graph.nodes:
        if not found.isdisjoint(reads(node)):
            found.update(name for name in node.outputs if name in differentiable)
    return frozenset(found)


@final
class Prices:
    """Prices of operators on a machine. Equal operators are planned once.

    Args:
        machine: whose IPUs they run on; it may have more of them.
        num_io_tiles: of each IPU, which compute nothing.
    """

    def __init__(self, machine: MachineSpec, *, num_io_tiles: int = 0) -> None:
        self._options = PlanOptions(num_io_tiles=num_io_tiles, fusion="none")
        self._one = changed_machine(machine, num_ipus=1)
        self._machine = machine
        self._known: dict[tuple[object, ...], OperatorCost] = {}
        self._added: dict[tuple[object, ...], int] = {}

    def operators(self, graph: SessionGraph, differentiable: Collection[str] = ()) -> list[OperatorCost]:
        """The cost of each node of a model's graph, in order. Nodes whose results are known cost nothing.

        Each is planned alone, so what a program of several would fuse or overlap counts in full.

        Args: differentiable: tensors that have a gradient, in training (`Analysis.differentiable`).
        Raises: popart_exception for a node that cannot be computed.
        """
        values, wanted = evaluated(graph), wanted_gradients(graph, differentiable)
        return [self._operator(_Single(graph, node, values, wanted)) for node in graph.graph.nodes]

    def adding(self, spec: jax.ShapeDtypeStruct) -> int:
        """Cycles to add a gradient to those of the microbatches before."""
        key = (tuple(spec.shape), str(spec.dtype))
        if key not in self._added:
            self._added[key] = self._cycles(lambda total, one: total + one, (spec, spec), self._one)
        return self._added[key]

    def exchange(self, messages: Sequence[Message]) -> int:
        """Cycles of one exchange in which IPUs pass all messages on."""
        if not messages:
            return 0
        cost = pass_cost(self._with(1 + max(max(source, target) for source, target, _ in messages)), messages)
        return cost.sync_cycles + cost.exchange_cycles

    def host(self, size_bytes: int, num_ipus: int, ipu: int) -> tuple[int, frozenset[int]]:
        """(Cycles in which an IPU gets so many bytes of the host, 0 for none; the IPUs that wait for it, of so many)."""
        machine = self._with(num_ipus)
        together = tuple(other for other in range(num_ipus) if host_set(machine, other) == host_set(machine, ipu))
        if not size_bytes:
            return 0, frozenset(together)
        latency = cycles_from_seconds(machine.host.link_latency_seconds, machine.ipu.clock_hz)
        return machine.host_cycles(to_ipus=size_bytes) + latency + 2 * sync_cycles(machine, together), frozenset(together)

    def _with(self, num_ipus: int) -> MachineSpec:
        """The machine with at least so many IPUs."""
        return self._machine if num_ipus <= self._machine.num_ipus else changed_machine(self._machine, num_ipus=num_ipus)

    def _operator(self, single: _Single) -> OperatorCost:
        if not single.outputs:
            return FREE
        if single.key not in self._known:
            with named_errors():
                forward = self._cycles(single.forward, single.arguments, self._one)
                both = self._cycles(single.both, (*single.arguments, single.cotangents), self._one) if single.cotangents else forward
            self._known[single.key] = OperatorCost(forward=forward, backward=max(0, both - forward))
        return self._known[single.key]

    def _cycles(self, function: Any, arguments: Sequence[Any], machine: MachineSpec) -> int:
        """Cycles of a program whose arguments are in the tiles: each loop and branch that depends on data once, nothing of the host."""
        initialize()  # JAX lowers for the emulated machine whether or not the process uses it as a platform
        lowered = _jax.jit(function).trace(*arguments).lower(lowering_platforms=("ipu",))
        program = plan_for(machine, lowered, resident=True, options=self._options)
        body = body_cost(program, machine, tuple(range(program.num_ipus)))
        return sum(part.total for part in (body.fixed, *body.counted.values()))


class _Single:
    """One node as a program of its own.

    Attributes:
        outputs: what it computes, by name.
        arguments: types of its own program: the tensors that it reads, and a random key.
        cotangents: types of the gradients that come back to it, by output.
        key: equal for operators that cost the same.
    """

    def __init__(self, graph: SessionGraph, node: Node, values: Values, differentiable: Collection[str]) -> None:
        self.outputs = [name for name in node.outputs if name and name in values and not is_known(values[name])]
        inputs = list(dict.fromkeys(name for name in reads(node) if name in values))
        known = {name: values[name] for name in inputs if is_known(values[name])}
        self._inputs = [name for name in inputs if name not in known]
        self._graph = Graph(
            name="operator",
            inputs=tuple(self._inputs),
            outputs=tuple(self.outputs),
            nodes=(replace(node, ended=()),),
            initializers=known,
            outer=frozenset(),
        )
        self._run = GraphRun(training=graph.training, around=around(graph.tuning, {}) if graph.tuning else None)
        self._draws = draws(self._graph)
        self._slopes = [name for name in self._inputs if name in differentiable]
        key = jax.eval_shape(lambda: jax.random.key(0))
        self.arguments = ({name: values[name] for name in self._inputs}, key)
        backward = [name for name in self.outputs if name in differentiable] if self._slopes else []
        self.cotangents = {name: values[name] for name in backward}
        tuned = graph.tuning.get(next((name for name in node.outputs if name), ""), {})
        self.key = (_shape_of(node), graph.training, *_types(values, reads(node)), *_types(values, self.outputs),
                    tuple(name in self._slopes for name in self._inputs), tuple(name in backward for name in self.outputs),
                    tuple(sorted((name, str(value)) for name, value in tuned.items())))  # fmt: skip

    def forward(self, given: dict[str, Any], key: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """(what it computes, the statistics that it keeps), by name."""
        run = replace(self._run, key=key if self._draws else None, state={})
        found = run_graph(self._graph, [given[name] for name in self._inputs], run)
        return dict(zip(self.outputs, found, strict=True)), run.state

    def both(self, given: dict[str, Any], key: Any, cotangents: dict[str, Any]) -> Any:
        """(what `forward` gives, the gradients of its inputs)."""

        def some(slopes: dict[str, Any]) -> Any:
            found, state = self.forward({**given, **slopes}, key)
            return {name: found[name] for name in cotangents}, (found, state)

        _, pull, rest = jax.vjp(some, {name: given[name] for name in self._slopes}, has_aux=True)
        return rest, pull(cotangents)


def _type_of(value: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(jnp.shape(value), jnp.result_type(value))


def _types(values: Values, names: Any) -> list[object]:
    """What decides the cost of reading or making tensors: their types, and the values of those that are known."""
    found: list[object] = []
    for name in names:
        for leaf in jax.tree.leaves(values.get(name)):
            content = leaf.tobytes() if isinstance(leaf, np.ndarray) else None
            found.append((tuple(leaf.shape), str(leaf.dtype), content))
    return found


def _shape_of(node: Node) -> bytes:
    """A node's text in which tensors have numbers, so that equal operators on other tensors have equal texts."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    if not node.subgraphs:  # those read tensors by name
        proto.name = ""
        numbers: dict[str, str] = {"": ""}
        for names in (proto.input, proto.output):
            named = [numbers.setdefault(name, str(len(numbers))) for name in names]
            del names[:]
            names.extend(named)
    return f"{node.domain} {node.version} ".encode() + proto.SerializeToString(deterministic=True)
