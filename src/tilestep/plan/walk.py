"""The walk over a program's computations: units become steps, control flow becomes loops and branches.

Units that cost nothing (views, tuples, constants) leave no step behind; they only pass on which buffers a value is made
of. What the walk learns on its way (buffers, assumptions, fallbacks) stays in the `Walk`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilestep import cost
from tilestep.cost import StepCost
from tilestep.cost.elementwise import named_cast
from tilestep.cost.rates import WITH_SCALAR
from tilestep.errors import HloError
from tilestep.hints import INFEED_TARGET, OUTFEED_TARGET
from tilestep.machine.spec import IpuSpec
from tilestep.options import PlanOptions
from tilestep.plan import steps
from tilestep.plan.code import code_of, code_of_pass
from tilestep.plan.collectives import groups_of, kind_of, pairs_of
from tilestep.plan.counters import without_counters
from tilestep.plan.fuse import VIEWS, Unit, Units, fuse
from tilestep.plan.liveness import Buffers, Moment
from tilestep.plan.mapping import ANYWHERE, Leaf, Value, home_of, place_pass, settled
from tilestep.plan.parking import Parking, parking
from tilestep.plan.price import pass_dtype, price, priced_as, superstep, work_of
from tilestep.plan.stencil import halo, starts
from tilestep.plan.steps import Branch, Collective, HostCall, Loop, Node
from tilestep.program.cleanup import users_of
from tilestep.program.hlo import Computation, HloModule, Instruction
from tilestep.program.work import DTYPE_BITS, ArrayShape, Work

_UPDATES = frozenset({"dynamic-update-slice", "scatter"})  # write into their first operands
_PARTIAL_READS = frozenset({"dynamic-slice", "slice", "gather"})
_HOST_TRANSFERS = frozenset({"infeed", "outfeed", "send", "recv"})
_FEEDS = (INFEED_TARGET, OUTFEED_TARGET)
_FINISHED = frozenset({"send-done", "recv-done"})  # what the host did was counted when it began
SITE = "tilestep.site"  # frontend attribute of a loop or branch whose runs are counted


@dataclass(kw_only=True)
class Block:
    """One computation, walked."""

    computation: Computation
    nodes: list[Node]
    moments: list[Moment]
    root: Value


@dataclass(kw_only=True)
class _Scope:
    """What is known inside one computation while it is walked."""

    computation: Computation
    units: Units
    users: Mapping[str, list[Instruction]]
    parking: Parking
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    nodes: list[Node] = field(default_factory=list[Node])
    moments: list[Moment] = field(default_factory=list[Moment])
    products: dict[str, int] = field(
        default_factory=dict[str, int]
    )  # homes laid out by a matmul or convolution: elements on the fullest tile


class Walk:
    """One program on its way from HLO to steps."""

    def __init__(self, *, module: HloModule, ipu: IpuSpec, num_ipus: int, options: PlanOptions) -> None:
        self.module = module
        self.ipu = ipu
        self.options = options
        self.num_ipus = num_ipus
        self.buffers = Buffers(ipu.num_tiles)
        self.host: set[int] = set()  # buffers in the host's memory
        self.parked: set[int] = set()  # those of them that the program has just made: they are free to become a part of another
        self.merged: set[int] = set()  # those that did
        self.awaited: dict[int, tuple[Instruction, Leaf]] = {}  # buffers that come from pinned_host when something first reads them
        self.layouts: dict[int, str] = {}  # of buffers that stay where they are, as the first product that reads them wants it
        self.constants: list[int] = []
        self.assumptions: set[str] = set()
        self.fallbacks: set[str] = set()

    def block(self, computation: Computation, parameters: Sequence[Value]) -> Block:
        """Walks a computation whose parameters have these values."""
        scope = _Scope(
            computation=computation,
            units=fuse(computation, elementwise=cost.ELEMENTWISE),
            users=users_of(computation.instructions),
            parking=parking(computation, self.module.computations),
        )
        for unit in scope.units.order:
            first = unit.members[0]
            if first.name in scope.values:
                continue
            if all(member.name in scope.parking.unstored for member in unit.members):
                for member in unit.members:
                    same = scope.values[member.operands[0]] if member.operands[0] in scope.parking.unstored else None
                    scope.values[member.name] = same or (Leaf(self._on_host(member, member.leaves[0].size_bytes), ANYWHERE),)
            elif unit.fused:
                if (rest := self._without_host_copies(unit, scope)).members:
                    self._pass(rest, scope)
            elif first.opcode == "parameter":
                scope.values[first.name] = parameters[int(first.literal)]
            else:
                scope.values[first.name] = self._single(first, scope)
            for user in (user for member in unit.members for user in scope.users[member.name]):
                if user.destination == "host" and user.name not in scope.values:  # as soon as it can, so that the tiles have room
                    scope.values[user.name] = self._single(user, scope)
        return Block(computation=computation, nodes=scope.nodes, moments=scope.moments, root=scope.values[computation.root.name])

    def deliver(self, block: Block, places: Sequence[int | None]) -> None:
        """Ends a block by bringing its results to where they have to be.

        Args: places: of each result, the buffer in pinned_host that it has to lie in; None if it has to lie in the tiles.
        """
        root = block.computation.root
        makers = [root]
        if root.opcode == "tuple" and len(root.operands) == len(block.root):
            makers = [block.computation.by_name[operand] for operand in root.operands]
        delivered: list[Leaf] = []
        self._bring(block.root, block)
        for index, (leaf, place) in enumerate(zip(block.root, places, strict=True)):
            if place is not None and leaf.buffer != place and self._merge(leaf):
                leaf = Leaf(place, ANYWHERE)
            maker, size_bytes = makers[index % len(makers)], self.buffers.sizes[leaf.buffer]
            if leaf.buffer in self.host and leaf.buffer != place:
                arrived = Leaf(self.buffers.new(self.buffers.names[leaf.buffer], size_bytes), ANYWHERE)
                self._emit_memory_access(maker, (), (arrived,), from_memory=size_bytes, scope=block)
                leaf = arrived
            if place is not None and leaf.buffer != place:
                self._emit_memory_access(maker, (leaf,), (), to_memory=size_bytes, scope=block)
                leaf = Leaf(place, ANYWHERE)
            delivered.append(leaf)
        block.root = tuple(delivered)

    def _single(self, instruction: Instruction, scope: _Scope) -> Value:
        """The value of an instruction that is not part of a fused pass; emits its step, if it has one."""
        opcode = instruction.opcode
        operands = [scope.values[operand] for operand in instruction.operands]
        if opcode == "iota":  # absorbed: nobody stores it
            return (Leaf(self.buffers.new(instruction.name, 0), ANYWHERE),)
        if opcode in VIEWS or instruction.name in scope.units.absorbed:
            return operands[0]
        if opcode == "tuple":
            return tuple(leaf for value in operands for leaf in value)
        if opcode == "get-tuple-element":
            start, end = scope.computation.by_name[instruction.operands[0]].shape.span(int(instruction.attributes["index"]))
            return operands[0][start:end]
        if opcode == "constant":
            value = tuple(Leaf(self.buffers.new("constants", leaf.size_bytes), ANYWHERE) for leaf in instruction.leaves)
            self.constants += [leaf.buffer for leaf in value]
            return value
        if opcode == "while":
            return self._loop(instruction, operands[0], scope)
        if opcode == "conditional":
            return self._branch(instruction, operands, scope)
        if _calls_host(instruction):
            return self._host_call(instruction, operands, scope)
        if instruction.destination:
            return self._moved(instruction, operands[0], scope)
        if kind_of(instruction) is not None:
            return self._collective(instruction, operands, scope)
        if priced_as(instruction) in cost.FREE or opcode in _FINISHED:  # another name for its operand, or known beforehand
            same = bool(operands) and len(operands[0]) == len(instruction.leaves)
            return operands[0] if same else self._new(instruction, lambda _: ANYWHERE)
        if opcode != "custom-call" and not any(leaf.size for leaf in instruction.leaves):  # nothing to compute
            return self._new(instruction, lambda _: instruction.name)
        return self._priced(instruction, operands, scope)

    def _moved(self, instruction: Instruction, value: Value, scope: _Scope) -> Value:
        """A value written to pinned_host at once, or read from there when it is needed; where it is there already, the same."""
        (leaf,) = value
        size_bytes = self.buffers.sizes[leaf.buffer]
        if instruction.destination == "host":
            if leaf.buffer in self.awaited:
                return (self.awaited[leaf.buffer][1],)
            if leaf.buffer in self.host:
                return value
            place = Leaf(self._on_host(instruction, instruction.leaves[0].size_bytes), ANYWHERE)
            self.parked.add(place.buffer)
            self._emit_memory_access(instruction, value, (), to_memory=instruction.leaves[0].size_bytes, scope=scope)
            return (place,)
        if leaf.buffer not in self.host:
            return value
        arriving = Leaf(self.buffers.new(self.buffers.names[leaf.buffer], size_bytes), ANYWHERE)
        self.awaited[arriving.buffer] = (instruction, leaf)
        return (arriving,)

    def _without_host_copies(self, unit: Unit, scope: _Scope) -> Unit:
        """A unit without its copies within pinned_host, which XLA:CPU makes for its own buffers.

        They are other names for what they copy: a value that has to lie in two places there is delivered twice.
        """
        others: list[Instruction] = []
        for member in unit.members:
            value = scope.values.get(member.operands[0], ()) if member.opcode in ("copy", *VIEWS) else ()
            if value and value[0].buffer in self.host:
                scope.values[member.name] = value
            else:
                others.append(member)
        return replace(unit, members=tuple(others))

    def _on_host(self, instruction: Instruction, size_bytes: int) -> int:
        """A new buffer in pinned_host."""
        buffer = self.buffers.new(scope_of(instruction) or instruction.name, size_bytes)
        self.host.add(buffer)
        return buffer

    def _bring(self, leaves: Value, scope: _Scope | Block) -> None:
        """Brings what is awaited of `leaves` from pinned_host."""
        for leaf in leaves:
            if leaf.buffer in self.awaited:
                instruction, _ = self.awaited.pop(leaf.buffer)
                self._emit_memory_access(instruction, (), (leaf,), from_memory=self.buffers.sizes[leaf.buffer], scope=scope)

    def _merge(self, leaf: Leaf) -> bool:
        """Whether a value was only just written to pinned_host, so that it may have been written into another's place at once."""
        if leaf.buffer not in self.parked:
            return False
        self.parked.remove(leaf.buffer)
        self.merged.add(leaf.buffer)
        return True

    def _new(self, instruction: Instruction, home: Callable[[int], str], tile_elements: int = 0) -> Value:
        """Fresh buffers for a result.

        Args: home: where each leaf lies; tile_elements: of it on the fullest tile, 0 if it is spread evenly.
        """
        label = scope_of(instruction) or instruction.name
        return tuple(
            Leaf(self.buffers.new(label, leaf.size_bytes, tile_elements * DTYPE_BITS[leaf.dtype] // 8), home(index))
            for index, leaf in enumerate(instruction.leaves)
        )

    def _priced(self, instruction: Instruction, operands: Sequence[Value], scope: _Scope) -> Value:
        """An operation with an estimator of its own, or the fallback."""
        table = scope.computation.by_name
        shapes = [table[operand].leaves for operand in instruction.operands]
        if instruction.opcode == "dynamic-update-slice" and operands[0][0].buffer in self.host:  # the update goes out, nothing else moves
            if not self._merge(operands[1][0]):
                (update,) = self._streamed(instruction, operands[1:2], shapes[1:2], scope)
                self._emit_memory_access(instruction, update, (), to_memory=shapes[1][0].size_bytes, scope=scope)
            return operands[0]
        from_host = instruction.opcode in _PARTIAL_READS and operands[0][0].buffer in self.host
        operands = self._streamed(instruction, operands, shapes, scope)
        if from_host:  # what arrived is the slice
            return operands[0]
        resident = [[leaf.home == ANYWHERE for leaf in value] for value in operands]
        work = work_of(instruction, shapes, resident, self.module.computations)
        step = price(work, self.ipu, self.options)
        if step.layouts:
            work, step = self._agreed(work, step, [leaf for value in operands for leaf in value])
        if step.fallback:
            self.fallbacks.add(work.opcode)
        self.assumptions.update(step.assumptions)
        node = superstep(instruction.name, scope_of(instruction), step, code_of(work, step, self.ipu))
        if instruction.opcode in cost.PLANNED:
            scope.products[instruction.name] = step.result_tile_elements
        if instruction.opcode in _UPDATES:
            value = tuple(operands[index][0] for index in range(len(instruction.leaves)))
        else:
            value = self._new(instruction, lambda index: home_of(instruction, operands, index), step.result_tile_elements)
        self._emit(node, operands, value, scope, temporary_tile_bytes=step.temporary_tile_bytes)
        return value

    def _agreed(self, work: Work, step: StepCost, leaves: Sequence[Leaf]) -> tuple[Work, StepCost]:
        """A value that stays lies as its first product's plan wants it; a later one whose plan wants it otherwise gets it sent."""
        stays = tuple(
            resident and (not layout or self.layouts.setdefault(leaf.buffer, layout) == layout)
            for resident, leaf, layout in zip(work.resident, leaves, step.layouts, strict=False)
        )
        if stays == work.resident[: len(stays)]:
            return work, step
        work = replace(work, resident=(*stays, *work.resident[len(stays) :]))
        return work, price(work, self.ipu, self.options)

    def _pass(self, unit: Unit, scope: _Scope) -> None:
        """A fused elementwise pass: reads each input once, writes only what others use."""
        inside = {member.name for member in unit.members}
        operations = [member for member in unit.members if member.name in scope.units.fusible]
        last = operations[-1]
        size = last.leaves[0].size
        reads, halo_bytes, copied_bytes = self._reads(operations, inside, size, scope)
        placed = place_pass(last.name, reads, size, scope.products.keys())
        outputs = [member for member in operations if self._escapes(member, inside, scope)]
        tile_elements = scope.products.get(placed.home, 0)
        for member in unit.members:
            if member in outputs:
                blocks = tile_elements if member.leaves[0].size == size else 0
                scope.values[member.name] = self._new(member, lambda _: placed.home, blocks)
            elif member.name in scope.units.fusible:
                scope.values[member.name] = (Leaf(self.buffers.new(member.name, 0), placed.home),)
            else:  # a view between two operations
                scope.values[member.name] = scope.values[member.operands[0]]
        if not size:
            return
        named = [self._operation(member, scope) for member in operations]
        step = cost.elementwise_pass(
            named,
            size=size,
            inputs=[shape for _, shape in reads],
            outputs=[member.leaves[0] for member in outputs],
            moved_bytes=placed.moved_bytes,
            tile_elements=tile_elements,
            halo_bytes=halo_bytes,
            copied_bytes=copied_bytes,
            ipu=self.ipu,
        )
        self.assumptions.update(step.assumptions)
        written = tuple(leaf for member in outputs for leaf in scope.values[member.name])
        node = superstep(last.name, scope_of(last), step, code_of_pass(named, step))
        self._emit(node, [tuple(leaf for leaf, _ in reads)], written, scope, temporary_tile_bytes=step.temporary_tile_bytes, in_place=True)

    def _reads(
        self, operations: Sequence[Instruction], inside: set[str], size: int, scope: _Scope
    ) -> tuple[list[tuple[Leaf, ArrayShape]], int, int]:
        """What a pass of `size` elements loads, each array and each slice of one once; bytes of halos, and of blocks copied with them."""
        whole: dict[int, tuple[Leaf, ArrayShape]] = {}
        sliced: dict[int, tuple[Leaf, dict[str, Instruction]]] = {}
        for operand in (operand for member in operations for operand in member.operands):
            source, part = self._seen(operand, scope)
            if source.name in inside or (source.opcode == "constant" and source.leaves[0].size < size):
                continue  # each tile has its own copy of a small constant
            (leaf,) = scope.values[source.name]
            if part is None:
                whole[leaf.buffer] = (leaf, source.leaves[0])
            else:
                sliced.setdefault(leaf.buffer, (leaf, {}))[1][part.name] = part
        halo_bytes = copied_bytes = 0
        found = list(whole.values())
        for leaf, slices in sliced.values():
            parts = list(slices.values())
            if len(parts) > 1 and len({part.leaves[0].dims for part in parts}) == 1:
                margins = halo(parts[0].leaves[0], [starts(part.attributes["slice"]) for part in parts], self.ipu)
                halo_bytes += margins.received_bytes
                copied_bytes += margins.copied_bytes
                home = leaf.home
            else:
                home = leaf.home and f"{leaf.home}[{parts[0].name}]"  # part of an array lies elsewhere than what it meets
            found += [(Leaf(leaf.buffer, home), part.leaves[0]) for part in parts]
        if size:
            last = operations[-1]
            streamed = self._streamed(last, [tuple(leaf for leaf, _ in found)], [[shape for _, shape in found]], scope)
            found = list(zip(streamed[0], (shape for _, shape in found), strict=True))
        return found, halo_bytes, copied_bytes

    def _operation(self, member: Instruction, scope: _Scope) -> tuple[str, str]:
        """Under which name a fused operation is priced, and the dtype that it computes in."""
        operands = [scope.computation.by_name[operand].leaves[0] for operand in member.operands]
        opcode = member.opcode
        if opcode in WITH_SCALAR and any(self._source(operand, scope).leaves[0].size == 1 for operand in member.operands):
            opcode = WITH_SCALAR[opcode]
        if operands:
            opcode = named_cast(opcode, operands[0].dtype, member.leaves[0].dtype, self.ipu)
        return opcode, pass_dtype(member, operands)

    def _source(self, name: str, scope: _Scope) -> Instruction:
        """What a fused operation really reads: seen through views, and through broadcasts, slices and pads that nobody stores."""
        return self._seen(name, scope)[0]

    def _seen(self, name: str, scope: _Scope) -> tuple[Instruction, Instruction | None]:
        """As `_source`, and the slice that is read of it, if any."""
        instruction = scope.computation.by_name[name]
        part: Instruction | None = None
        while (instruction.opcode in VIEWS or instruction.name in scope.units.absorbed) and instruction.name not in scope.units.fusible:
            if instruction.opcode == "slice":
                part = part or instruction
            instruction = scope.computation.by_name[instruction.operands[0]]
        return instruction, part

    def _escapes(self, member: Instruction, inside: set[str], scope: _Scope) -> bool:
        """Whether something outside of the pass uses a result."""
        return member is scope.computation.root or any(
            user.name not in inside or (user.name not in scope.units.fusible and self._escapes(user, inside, scope))
            for user in scope.users[member.name]
        )

    def _loop(self, instruction: Instruction, carried: Value, scope: _Scope) -> Value:
        """A while loop. One whose trips are known is counted by control code: neither its condition nor its counter cost anything."""
        body = self.module.computations[instruction.called("body")[0]]
        trips = instruction.trip_count
        carried = self._carried(instruction, carried, scope)
        if trips is not None:
            body = without_counters(body, cost.ELEMENTWISE)
        site = self._site(instruction) if trips is None else None
        if trips is None and site is None:
            self.assumptions.add(
                f"loop '{instruction.name}' ({scope_of(instruction) or 'no name'}) runs as often as its data says: one trip assumed"
            )
        keeps = settled(body, fuse(body, elementwise=cost.ELEMENTWISE).fusible)
        shape = scope.computation.by_name[instruction.operands[0]].shape
        homes = {leaf: ANYWHERE for index in keeps for leaf in range(*shape.span(index))}
        parameter = tuple(Leaf(leaf.buffer, homes.get(index, f"{instruction.name}.{index}")) for index, leaf in enumerate(carried))
        start = len(self.buffers)
        walked = self.block(body, [parameter])
        self.deliver(walked, [leaf.buffer if leaf.buffer in self.host else None for leaf in carried])
        taken: set[int] = set()
        for before, after in zip(carried, walked.root, strict=True):  # XLA has put copies where the two could not share memory
            if (
                after.buffer >= start
                and after.buffer not in taken
                and self.buffers.sizes[after.buffer] == self.buffers.sizes[before.buffer]
            ):
                taken.add(after.buffer)
                self.buffers.share(after.buffer, before.buffer)
        nodes, moments = walked.nodes, walked.moments
        if trips is None:
            test = self.block(self.module.computations[instruction.called("condition")[0]], [parameter])
            nodes, moments = nodes + test.nodes, moments + test.moments
        loop = Loop(name=instruction.name, scope=scope_of(instruction), body=steps.Sequence(nodes=tuple(nodes)), trips=trips, site=site)
        scope.nodes.append(loop)
        buffers = tuple(leaf.buffer for leaf in carried)
        scope.moments.append(Moment(step=instruction.name, reads=buffers, writes=buffers, inner=(tuple(moments),)))
        return parameter

    def _carried(self, instruction: Instruction, carried: Value, scope: _Scope) -> Value:
        """What a loop begins with, each array where the loop has it."""
        self._bring(carried, scope)
        self.parked.difference_update(leaf.buffer for leaf in carried)
        shape, result = scope.computation.by_name[instruction.operands[0]].shape, list(carried)
        for element, is_filled in scope.parking.elements.get(instruction.name, {}).items():
            index, _ = shape.span(element)
            leaf, size_bytes = carried[index], shape.leaves[index].size_bytes
            if leaf.buffer in self.host:
                continue
            result[index] = Leaf(self._on_host(instruction, size_bytes), ANYWHERE)
            if is_filled:
                self._emit_memory_access(instruction, (leaf,), (), to_memory=size_bytes, scope=scope)
        return tuple(result)

    def _branch(self, instruction: Instruction, operands: Sequence[Value], scope: _Scope) -> Value:
        """A conditional. Arms in the order of their numbers; of a conditional on a truth value the true arm is arm 0."""
        arms = instruction.called("branch_computations") or (
            *instruction.called("true_computation"),
            *instruction.called("false_computation"),
        )
        site = self._site(instruction)
        if site is None:
            self.assumptions.add(
                f"branch '{instruction.name}' ({scope_of(instruction) or 'no name'}) is not counted: its dearest arm assumed"
            )
        for operand in operands:
            self._bring(operand, scope)
            self.parked.difference_update(leaf.buffer for leaf in operand)
        walked: list[Block] = []
        starts: list[int] = []
        for number, arm in enumerate(arms):
            starts.append(len(self.buffers))
            walked.append(self.block(self.module.computations[arm], [operands[number + 1]]))
        given = {leaf.buffer for operand in operands for leaf in operand}
        places = [self._place_of(leaves, given) for leaves in zip(*(block.root for block in walked), strict=True)]
        for block in walked:
            self.deliver(block, places)
        made = self._new(instruction, lambda index: f"{instruction.name}.{index}")
        value = tuple(leaf if place is None else Leaf(place, ANYWHERE) for leaf, place in zip(made, places, strict=True))
        for start, block in zip(starts, walked, strict=True):
            taken: set[int] = set()
            for result, leaf in zip(value, block.root, strict=True):
                if leaf.buffer >= start and leaf.buffer not in taken:
                    taken.add(leaf.buffer)
                    self.buffers.share(leaf.buffer, result.buffer)
        scope.nodes.append(
            Branch(
                name=instruction.name,
                scope=scope_of(instruction),
                arms=tuple(steps.Sequence(nodes=tuple(block.nodes)) for block in walked),
                site=site,
            )
        )
        scope.moments.append(
            Moment(
                step=instruction.name,
                reads=tuple(leaf.buffer for operand in operands for leaf in operand),
                writes=tuple(leaf.buffer for leaf in value),
                inner=tuple(tuple(block.moments) for block in walked),
            )
        )
        return value

    def _place_of(self, leaves: Sequence[Leaf], given: Collection[int]) -> int | None:
        """The buffer in pinned_host that one result of a conditional lies in; None: it lies in the tiles.

        What some arm passes on rather than what another has made, which can be written there at once.

        Args: leaves: the result in each arm. given: buffers of the conditional's operands.
        """
        on_host = [leaf.buffer for leaf in leaves if leaf.buffer in self.host]
        return next((buffer for buffer in on_host if buffer in given), next(iter(on_host), None))

    def _site(self, instruction: Instruction) -> int | None:
        text = instruction.frontend(SITE)
        if text is not None and not text.isdigit():
            raise HloError(f"line {instruction.line}: {SITE} of {instruction.name!r} is {text!r}, expected a whole number")
        return None if text is None else int(text)

    def _collective(self, instruction: Instruction, operands: Sequence[Value], scope: _Scope) -> Value:
        """An exchange between IPUs; within a group of one nothing moves."""
        kind = kind_of(instruction)
        assert kind is not None  # the caller has looked
        groups = groups_of(instruction, self.num_ipus)
        shapes = [scope.computation.by_name[operand].leaves for operand in instruction.operands]
        flat = [leaf for value in operands for leaf in value]
        if not groups and len(flat) == len(instruction.leaves):
            return tuple(flat)
        operands = self._streamed(instruction, operands, shapes, scope)
        value = self._new(instruction, lambda index: home_of(instruction, operands, index))
        if groups:
            arrays = [shape for leaves in shapes for shape in leaves]
            size_bytes = max(sum(shape.size_bytes for shape in arrays), sum(leaf.size_bytes for leaf in instruction.leaves))
            cycles = cost.collective_compute_cycles(kind, size_bytes, arrays[0].dtype, max(map(len, groups)), self.ipu)
            node = Collective(
                name=instruction.name,
                scope=scope_of(instruction),
                kind=kind,
                size_bytes=size_bytes,
                groups=groups,
                pairs=pairs_of(instruction, self.num_ipus) if kind == "collective-permute" else (),
                compute_cycles=cycles,
            )
            self._emit(node, operands, value, scope, in_place=kind == "all-reduce")
        return value

    def _host_call(self, instruction: Instruction, operands: Sequence[Value], scope: _Scope) -> Value:
        """A callback, an infeed or an outfeed."""
        value = self._new(instruction, lambda _: instruction.name)
        shapes = [leaf for operand in instruction.operands for leaf in scope.computation.by_name[operand].leaves]
        self._emit_host_call(
            instruction,
            tuple(leaf for operand in operands for leaf in operand),
            value,
            to_host=sum(shape.size_bytes for shape in shapes),
            from_host=0 if instruction.opcode in ("outfeed", "send") else sum(leaf.size_bytes for leaf in instruction.leaves),
            scope=scope,
        )
        return value

    def _streamed(
        self, instruction: Instruction, operands: Sequence[Value], shapes: Sequence[Sequence[ArrayShape]], scope: _Scope
    ) -> list[Value]:
        """Operands with those in the host's memory brought into the tiles, for this one use; of a slice only what it takes."""
        result: list[Value] = []
        for value, leaves in zip(operands, shapes, strict=True):
            moved: list[Leaf] = []
            for leaf, shape in zip(value, leaves, strict=True):
                if leaf.buffer not in self.host:
                    moved.append(leaf)
                    continue
                size_bytes = instruction.leaves[0].size_bytes if instruction.opcode in _PARTIAL_READS else shape.size_bytes
                arrived = Leaf(self.buffers.new(self.buffers.names[leaf.buffer], size_bytes), ANYWHERE)
                self._emit_memory_access(instruction, (), (arrived,), from_memory=size_bytes, scope=scope)
                moved.append(arrived)
            result.append(tuple(moved))
        return result

    def _emit_host_call(
        self, instruction: Instruction, reads: Value, writes: Value, *, to_host: int, from_host: int, scope: _Scope
    ) -> None:
        node = HostCall(
            name=instruction.name,
            scope=scope_of(instruction),
            bytes_to_host=to_host,
            bytes_from_host=from_host,
            is_feed=instruction.attributes.get("custom_call_target", "") in _FEEDS,
        )
        self._emit(node, [reads], writes, scope)

    def _emit_memory_access(
        self, instruction: Instruction, reads: Value, writes: Value, *, to_memory: int = 0, from_memory: int = 0, scope: _Scope | Block
    ) -> None:
        """Bytes of a value in pinned_host that the program itself reads or writes: no host program answers."""
        node = HostCall(
            name=instruction.name, scope=scope_of(instruction), bytes_to_host=to_memory, bytes_from_host=from_memory, in_memory=True
        )
        self._emit(node, [reads], writes, scope)

    def _emit(
        self,
        node: Node,
        reads: Sequence[Value],
        writes: Value,
        scope: _Scope | Block,
        *,
        temporary_tile_bytes: int = 0,
        in_place: bool = False,
    ) -> None:
        assert not isinstance(node, steps.Sequence)  # a sequence has no name and no moment of its own
        for value in reads:
            self._bring(value, scope)
        scope.nodes.append(node)
        scope.moments.append(
            Moment(
                step=node.name,
                reads=tuple(leaf.buffer for value in reads for leaf in value),
                writes=tuple(leaf.buffer for leaf in writes),
                temporary_tile_bytes=temporary_tile_bytes,
                in_place=in_place,
            )
        )


def _calls_host(instruction: Instruction) -> bool:
    target = instruction.attributes.get("custom_call_target", "")
    return instruction.opcode in _HOST_TRANSFERS or (instruction.opcode == "custom-call" and ("callback" in target or target in _FEEDS))


def scope_of(instruction: Instruction) -> str:
    """The user's operation; where XLA merged several it names them all, and the first stands for them."""
    return instruction.op_name.partition(";")[0]
