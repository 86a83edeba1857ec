"""Lowers a program's computations: units become steps, control flow becomes loops and branches.

Units that cost nothing (views, tuples, constants) become no step. They only pass on the buffers of a value. The `Lowering`
collects buffers, assumptions and fallbacks on the way.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tilestep import cost
from tilestep.cost import StepCost
from tilestep.cost.elementwise.expression import Moves, dearest
from tilestep.errors import HloError
from tilestep.hints import INFEED_TARGET, OUTFEED_TARGET
from tilestep.machine.spec import IpuSpec
from tilestep.options import PlanOptions
from tilestep.plan import steps
from tilestep.plan.block import Lowered, Scope, scope_of
from tilestep.plan.collectives import groups_of, kind_of, pairs_of
from tilestep.plan.frames import Frames
from tilestep.plan.mapping import ANYWHERE, MappedArray, Value, home_of, keeping_layout, place_fusion
from tilestep.plan.memory.code import StepCode, code_of, code_of_fusion
from tilestep.plan.memory.timeline import Buffers, MemoryMoment
from tilestep.plan.operation_options import OperationOptions
from tilestep.plan.passes.counters import without_counters
from tilestep.plan.passes.fuse import VIEWS, Unit, fuse, fusible_in
from tilestep.plan.passes.host_gather import host_gathers
from tilestep.plan.pinned import PARTIAL_READS, Pinned
from tilestep.plan.price import price, priced_as, superstep, work_of
from tilestep.plan.reductions import is_epilogue, shares_supersteps
from tilestep.plan.steps import Branch, Collective, HostCall, Loop
from tilestep.program.hlo import Computation, HloModule, Instruction
from tilestep.program.work import DTYPE_BITS, Work

_RECEIVE_FIRST = frozenset({"rearrange"})  # families of steps that write the result when all operands have been received elsewhere
_UPDATES = frozenset({"dynamic-update-slice", "scatter"})  # write into their first operands
_HOST_TRANSFERS = frozenset({"infeed", "outfeed", "send", "recv"})
_FEEDS = (INFEED_TARGET, OUTFEED_TARGET)
_FINISHED = frozenset({"send-done", "recv-done"})  # the transfer was counted when it began
_ROOMY_SHARE = 0.25  # share of the tiles' memory: values that take no more leave room for all else, in any order
_CLUSTERS = "elementwise operations of equal size that use each other share a pass, as XLA for IPU clustered them (ipu_fusion clusters)"
_APART = "each elementwise operation is a pass of its own, as with PopART and PopTorch, but for calls of a library (ipu_fusion none)"
SITE = "tilestep.site"  # frontend attribute of a loop or branch whose runs are counted


class Lowering:
    """One program on its way from HLO to steps."""

    def __init__(self, *, module: HloModule, ipu: IpuSpec, num_ipus: int, options: PlanOptions) -> None:
        self.module = module
        self.ipu = ipu
        self.operation_options = OperationOptions(options)
        self.num_ipus = num_ipus
        self.buffers = Buffers(ipu.num_tiles)
        self.frames = Frames(module.frames)
        self.pinned = Pinned(self.buffers, self.frames)
        self.layouts: dict[int, str] = {}  # resident buffer -> layout, which its first product chooses
        self.laid: set[int] = set()  # resident buffers that lie as the first planned operation that reads them wants
        self.constants: list[int] = []
        self.assumptions: set[str] = set()
        self.fallbacks: set[str] = set()
        self._fusions: dict[tuple[object, ...], tuple[StepCost, StepCode, int]] = {}  # price, code and dearest operation of a fusion
        self._apart = options.fusion == "none"
        self._enough_bytes = int(_ROOMY_SHARE * ipu.num_tiles * ipu.tile.sram_bytes)

    def block(
        self,
        computation: Computation,
        parameters: Sequence[Value],
        taken_over: Mapping[int, tuple[int, int]] = MappingProxyType({}),
    ) -> Lowered:
        """Lowers a computation whose parameters have these values.

        Args: taken_over: of results, by their numbers, the parameter and its leaf whose memory they take over.
        """
        scope = Scope(
            computation=computation,
            units=fuse(
                computation, elementwise=cost.ELEMENTWISE, enough_bytes=self._enough_bytes, taken_over=taken_over, apart=self._apart
            ),
            users=computation.users,
            gathers=host_gathers(computation, self.module.computations),
        )
        for unit in scope.units.order:
            first = unit.members[0]
            if first.name in scope.values:
                continue
            if all(member.name in scope.gathers.unstored for member in unit.members):
                for member in unit.members:
                    same = scope.values[member.operands[0]] if member.operands[0] in scope.gathers.unstored else None
                    scope.values[member.name] = same or (MappedArray(self.pinned.new(member, member.leaves[0].size_bytes), ANYWHERE),)
            elif unit.fused and is_epilogue(unit, scope):
                for member in unit.members:
                    (operand,) = (name for name in member.operands if scope.source(name).opcode != "constant")
                    scope.values[member.name] = scope.values[scope.source(operand).name]
                    scope.finished.add(member.name)
            elif unit.fused:
                if (rest := self.pinned.without_copies(unit, scope)).members:
                    self._fusion(rest, scope)
            elif first.opcode == "parameter":
                scope.values[first.name] = parameters[int(first.literal)]
            else:
                scope.values[first.name] = self._single(first, scope)
            for user in (user for member in unit.members for user in scope.users[member.name]):
                if user.destination == "host" and user.name not in scope.values:  # at once, because that frees tile memory
                    scope.values[user.name] = self._single(user, scope)
        return Lowered(computation=computation, nodes=scope.nodes, moments=scope.moments, root=scope.values[computation.root.name])

    def deliver(self, block: Lowered, host_buffers: Sequence[int | None]) -> None:
        """Ends a block with the steps that move its results to the memories in which they are expected.

        Args: host_buffers: for each result its buffer in pinned_host; None if the result stays in the tiles.
        """
        root = block.computation.root
        makers = [root]
        if root.opcode == "tuple" and len(root.operands) == len(block.root):
            makers = [block.computation.by_name[operand] for operand in root.operands]
        delivered: list[MappedArray] = []
        self.pinned.bring(block.root, block)
        for index, (leaf, target) in enumerate(zip(block.root, host_buffers, strict=True)):
            if target is not None and leaf.buffer != target and self.pinned.merge(leaf):
                leaf = MappedArray(target, ANYWHERE)
            maker, size_bytes = makers[index % len(makers)], self.buffers.sizes[leaf.buffer]
            if leaf.buffer in self.pinned.host and leaf.buffer != target:
                arrived = MappedArray(self.buffers.new(self.buffers.names[leaf.buffer], size_bytes, frame=maker.frame), ANYWHERE)
                self.pinned.access(maker, (), (arrived,), from_memory=size_bytes, scope=block)
                leaf = arrived
            if target is not None and leaf.buffer != target:
                self.pinned.access(maker, (leaf,), (), to_memory=size_bytes, scope=block)
                leaf = MappedArray(target, ANYWHERE)
            delivered.append(leaf)
        block.root = tuple(delivered)

    def _single(self, instruction: Instruction, scope: Scope) -> Value:
        """The value of an instruction outside of fusions; emits its step, if it has one."""
        opcode = instruction.opcode
        operands = [scope.values[operand] for operand in instruction.operands]
        if opcode == "iota":  # absorbed: it is not stored
            return (MappedArray(self.buffers.new(instruction.name, 0), ANYWHERE),)
        if opcode in VIEWS or instruction.name in scope.units.absorbed:
            return operands[0]
        if opcode == "tuple":
            return tuple(leaf for value in operands for leaf in value)
        if opcode == "get-tuple-element":
            start, end = scope.computation.by_name[instruction.operands[0]].shape.span(int(instruction.attributes["index"]))
            return operands[0][start:end]
        if opcode == "constant":
            sizes = [leaf.size_bytes for leaf in instruction.leaves]
            value = tuple(MappedArray(self.buffers.new("constants", size, frame=instruction.frame), ANYWHERE) for size in sizes)
            self.constants += [leaf.buffer for leaf in value]
            return value
        if opcode == "while":
            return self._loop(instruction, operands[0], scope)
        if opcode == "conditional":
            return self._branch(instruction, operands, scope)
        if _calls_host(instruction):
            return self._host_call(instruction, operands, scope)
        if instruction.destination:
            return self.pinned.moved(instruction, operands[0], scope)
        if kind_of(instruction) is not None:
            return self._collective(instruction, operands, scope)
        if priced_as(instruction) in cost.FREE or opcode in _FINISHED:  # another name of its operand, or known beforehand
            same = bool(operands) and len(operands[0]) == len(instruction.leaves)
            return operands[0] if same else self._new(instruction, lambda _: ANYWHERE)
        if opcode != "custom-call" and not any(leaf.size for leaf in instruction.leaves):  # nothing to compute
            return self._new(instruction, lambda _: instruction.name)
        return self._priced(instruction, operands, scope)

    def _new(self, instruction: Instruction, home: Callable[[int], str], tile_elements: int = 0) -> Value:
        """New buffers for a result.

        Args: home: of each leaf; tile_elements: elements on the fullest tile, 0 if the result has an even layout.
        """
        label, new = scope_of(instruction) or instruction.name, self.buffers.new
        return tuple(
            MappedArray(new(label, leaf.size_bytes, tile_elements * DTYPE_BITS[leaf.dtype] // 8, frame=instruction.frame), home(index))
            for index, leaf in enumerate(instruction.leaves)
        )

    def _priced(self, instruction: Instruction, operands: Sequence[Value], scope: Scope) -> Value:
        """An operation with an estimator of its own, or the fallback."""
        table = scope.computation.by_name
        shapes = [table[operand].leaves for operand in instruction.operands]
        writes_there = instruction.opcode == "dynamic-update-slice" and operands[0][0].buffer in self.pinned.host
        if writes_there:  # only the update moves
            if not self.pinned.merge(operands[1][0]):
                (update,) = self.pinned.streamed(instruction, operands[1:2], shapes[1:2], scope)
                self.pinned.access(instruction, update, (), to_memory=shapes[1][0].size_bytes, scope=scope)
            return operands[0]
        from_host = instruction.opcode in PARTIAL_READS and operands[0][0].buffer in self.pinned.host
        operands = self.pinned.streamed(instruction, operands, shapes, scope)
        if from_host:  # only the slice arrived
            return operands[0]
        resident = [[leaf.home == ANYWHERE for leaf in value] for value in operands]
        work = work_of(instruction, shapes, resident, self.module.computations)
        options = self.operation_options.of(instruction)
        step = price(work, self.ipu, options)
        flat = [leaf for value in operands for leaf in value]
        for is_resident, leaf, lies in zip(work.resident, flat, step.held, strict=False):
            if is_resident and lies is not None and leaf.buffer not in self.laid:
                self.laid.add(leaf.buffer)
                self.buffers.lay(leaf.buffer, lies)
        if step.layouts:
            work, step = self._agreed(work, step, flat, options)
        if instruction.opcode == "reduce":
            scope.finished.add(instruction.name)
            if shares_supersteps(instruction, scope, apart=self._apart):
                step = replace(step, sync_cycles=0, overhead_cycles=0)
        if step.fallback:
            self.fallbacks.add(work.opcode)
        self.assumptions.update(step.assumptions)
        code = code_of(work, step, self.ipu)
        node = superstep(instruction.name, scope_of(instruction), step, code, frame=self.frames.number(instruction.frame))
        if instruction.opcode in cost.PLANNED:
            scope.products[instruction.name] = step.result_tile_elements
        if instruction.opcode in _UPDATES:
            value = tuple(operands[index][0] for index in range(len(instruction.leaves)))
        else:
            value = self._new(instruction, lambda index: home_of(instruction, operands, index), step.result_tile_elements)
        self.pinned.emit(
            node,
            operands,
            value,
            scope,
            temporary_tile_bytes=step.temporary_tile_bytes,
            in_place=step.family in _RECEIVE_FIRST and step.exchange_bytes > 0,
        )
        return value

    def _agreed(self, work: Work, step: StepCost, leaves: Sequence[MappedArray], options: PlanOptions) -> tuple[Work, StepCost]:
        """The work and its price, with one layout for each resident operand.

        A resident operand keeps the layout that its first matmul chose. A later matmul that wants another layout pays for the move.
        """
        stays = tuple(
            resident and (not layout or self.layouts.setdefault(leaf.buffer, layout) == layout)
            for resident, leaf, layout in zip(work.resident, leaves, step.layouts, strict=False)
        )
        if stays == work.resident[: len(stays)]:
            return work, step
        work = replace(work, resident=(*stays, *work.resident[len(stays) :]))
        return work, price(work, self.ipu, options)

    def _fusion(self, unit: Unit, scope: Scope) -> None:
        """A fusion of elementwise operations: it reads each input once, and writes only results that other units use."""
        inside = {member.name for member in unit.members}
        operations = [member for member in unit.members if member.name in scope.units.fusible]
        last = operations[-1]
        size = last.leaves[0].size
        reads, halo_bytes, copied_bytes = scope.reads(operations, inside, size, self.ipu)
        if size:
            arrived = self.pinned.streamed(last, [tuple(leaf for leaf, _ in reads)], [[shape for _, shape in reads]], scope)
            reads = list(zip(arrived[0], (shape for _, shape in reads), strict=True))
        placed = place_fusion(last.name, reads, size, scope.products.keys())
        outputs = [member for member in operations if scope.escapes(member, inside)]
        tile_elements = scope.products.get(placed.home, 0)
        for member in unit.members:
            if member in outputs:
                blocks = tile_elements if member.leaves[0].size == size else 0
                scope.values[member.name] = self._new(member, lambda _: placed.home, blocks)
            elif member.name in scope.units.fusible:
                scope.values[member.name] = (MappedArray(self.buffers.new(member.name, 0), placed.home),)
            else:  # a view between two operations
                scope.values[member.name] = scope.values[member.operands[0]]
        if not size:
            return
        named = tuple(scope.operation(member, self.ipu) for member in operations)
        inputs, stored = tuple(shape for _, shape in reads), tuple(member.leaves[0] for member in outputs)
        in_place = len(operations) == 1 and scope.takes_over(last)
        moves = Moves(placed.moved_bytes, halo_bytes, copied_bytes)
        alike = (named, size, inputs, stored, moves, tile_elements, in_place)
        known = self._fusions.get(alike)  # layers repeat
        if known is None:
            step = cost.elementwise_fusion(
                named,
                size=size,
                inputs=inputs,
                outputs=stored,
                ipu=self.ipu,
                moves=moves,
                tile_elements=tile_elements,
                in_place=in_place,
            )
            known = self._fusions[alike] = step, code_of_fusion(named, step), dearest(named)
        step, code, number = known
        self.assumptions.update(step.assumptions)
        if len(operations) > 1 or self._apart:
            self.assumptions.add(_APART if self._apart else _CLUSTERS)
        written = tuple(leaf for member in outputs for leaf in scope.values[member.name])
        named_by = operations[number]
        node = superstep(named_by.name, scope_of(named_by), step, code, frame=self.frames.number(named_by.frame))
        self.pinned.emit(
            node, [tuple(leaf for leaf, _ in reads)], written, scope, temporary_tile_bytes=step.temporary_tile_bytes, in_place=True
        )

    def _loop(self, instruction: Instruction, carried: Value, scope: Scope) -> Value:
        """A while loop. If its trips are known, control code counts them, so its condition and its counter cost nothing."""
        body = self.module.computations[instruction.called("body")[0]]
        trips = instruction.trip_count
        carried = self._carried(instruction, carried, scope)
        if trips is not None:
            body = without_counters(body)
        site = self._site(instruction) if trips is None else None
        if trips is None and site is None:
            self.assumptions.add(
                f"loop '{instruction.name}' ({scope_of(instruction) or 'no name'}) runs as often as its data says: one trip assumed"
            )
        keeps = keeping_layout(body, fusible_in(body, cost.ELEMENTWISE))
        shape = scope.computation.by_name[instruction.operands[0]].shape
        homes = {leaf: ANYWHERE for index in keeps for leaf in range(*shape.span(index))}
        parameter = tuple(MappedArray(leaf.buffer, homes.get(index, f"{instruction.name}.{index}")) for index, leaf in enumerate(carried))
        start = len(self.buffers)
        lowered = self.block(body, [parameter], {leaf: (0, leaf) for leaf in range(len(carried))})
        self.deliver(lowered, [leaf.buffer if leaf.buffer in self.pinned.host else None for leaf in carried])
        taken: set[int] = set()
        for before, after in zip(carried, lowered.root, strict=True):  # XLA has put copies where the two could not share memory
            if (
                after.buffer >= start
                and after.buffer not in taken
                and self.buffers.sizes[after.buffer] == self.buffers.sizes[before.buffer]
            ):
                taken.add(after.buffer)
                self.buffers.share(after.buffer, before.buffer)
        nodes, moments = lowered.nodes, lowered.moments
        if trips is None:
            test = self.block(self.module.computations[instruction.called("condition")[0]], [parameter])
            nodes, moments = nodes + test.nodes, moments + test.moments
        scope.nodes.append(
            Loop(
                name=instruction.name,
                scope=scope_of(instruction),
                body=steps.Series(nodes=tuple(nodes)),
                trips=trips,
                site=site,
                frame=self.frames.number(instruction.frame),
            )
        )
        buffers = tuple(leaf.buffer for leaf in carried)
        scope.moments.append(MemoryMoment(step=instruction.name, reads=buffers, writes=buffers, inner=(tuple(moments),)))
        return parameter

    def _carried(self, instruction: Instruction, carried: Value, scope: Scope) -> Value:
        """The carried values of a loop's first trip, each array in the memory in which the loop keeps it."""
        self.pinned.bring(carried, scope)
        self.pinned.keep(leaf.buffer for leaf in carried)
        shape, result = scope.computation.by_name[instruction.operands[0]].shape, list(carried)
        for element, is_filled in scope.gathers.elements.get(instruction.name, {}).items():
            index, _ = shape.span(element)
            leaf, size_bytes = carried[index], shape.leaves[index].size_bytes
            if leaf.buffer in self.pinned.host:
                continue
            result[index] = MappedArray(self.pinned.new(instruction, size_bytes), ANYWHERE)
            if is_filled:
                self.pinned.access(instruction, (leaf,), (), to_memory=size_bytes, scope=scope)
        return tuple(result)

    def _branch(self, instruction: Instruction, operands: Sequence[Value], scope: Scope) -> Value:
        """A conditional. Arms come in the order of their numbers; arm 0 of a conditional on a truth value is the true one."""
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
            self.pinned.bring(operand, scope)
            self.pinned.keep(leaf.buffer for leaf in operand)
        lowered: list[Lowered] = []
        starts: list[int] = []
        for number, arm in enumerate(arms):
            starts.append(len(self.buffers))
            lowered.append(self.block(self.module.computations[arm], [operands[number + 1]]))
        passed = {leaf.buffer for operand in operands for leaf in operand}
        host_buffers = [self._host_buffer(leaves, passed) for leaves in zip(*(block.root for block in lowered), strict=True)]
        for block in lowered:
            self.deliver(block, host_buffers)
        in_tiles = self._new(instruction, lambda index: f"{instruction.name}.{index}")
        value = tuple(
            leaf if buffer is None else MappedArray(buffer, ANYWHERE) for leaf, buffer in zip(in_tiles, host_buffers, strict=True)
        )
        for start, block in zip(starts, lowered, strict=True):
            taken: set[int] = set()
            for result, leaf in zip(value, block.root, strict=True):
                if leaf.buffer >= start and leaf.buffer not in taken:
                    taken.add(leaf.buffer)
                    self.buffers.share(leaf.buffer, result.buffer)
        scope.nodes.append(
            Branch(
                name=instruction.name,
                scope=scope_of(instruction),
                arms=tuple(steps.Series(nodes=tuple(block.nodes)) for block in lowered),
                site=site,
                frame=self.frames.number(instruction.frame),
            )
        )
        scope.moments.append(
            MemoryMoment(
                step=instruction.name,
                reads=tuple(leaf.buffer for operand in operands for leaf in operand),
                writes=tuple(leaf.buffer for leaf in value),
                inner=tuple(tuple(block.moments) for block in lowered),
            )
        )
        return value

    def _host_buffer(self, leaves: Sequence[MappedArray], passed: Collection[int]) -> int | None:
        """The buffer in pinned_host of one result of a conditional; None: the result is in the tiles.

        A buffer that some arm passes on comes before one that an arm makes, because the latter can be written there at once.

        Args: leaves: the result in each arm; passed: buffers of the conditional's operands.
        """
        on_host = [leaf.buffer for leaf in leaves if leaf.buffer in self.pinned.host]
        return next((buffer for buffer in on_host if buffer in passed), next(iter(on_host), None))

    def _site(self, instruction: Instruction) -> int | None:
        text = instruction.frontend_attributes.get(SITE)
        if text is not None and not text.isdigit():
            raise HloError(f"line {instruction.line}: {SITE} of {instruction.name!r} is {text!r}, expected a whole number")
        return None if text is None else int(text)

    def _collective(self, instruction: Instruction, operands: Sequence[Value], scope: Scope) -> Value:
        """An exchange between IPUs; in a group of one IPU nothing moves."""
        kind = kind_of(instruction)
        assert kind is not None  # the caller has looked
        groups = groups_of(instruction, self.num_ipus)
        shapes = [scope.computation.by_name[operand].leaves for operand in instruction.operands]
        flat = [leaf for value in operands for leaf in value]
        if not groups and len(flat) == len(instruction.leaves):
            return tuple(flat)
        operands = self.pinned.streamed(instruction, operands, shapes, scope)
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
                frame=self.frames.number(instruction.frame),
            )
            self.pinned.emit(node, operands, value, scope, in_place=kind == "all-reduce")
        return value

    def _host_call(self, instruction: Instruction, operands: Sequence[Value], scope: Scope) -> Value:
        """A callback, an infeed or an outfeed."""
        value = self._new(instruction, lambda _: instruction.name)
        shapes = [leaf for operand in instruction.operands for leaf in scope.computation.by_name[operand].leaves]
        node = HostCall(
            name=instruction.name,
            scope=scope_of(instruction),
            bytes_to_host=sum(shape.size_bytes for shape in shapes),
            bytes_from_host=0 if instruction.opcode in ("outfeed", "send") else sum(leaf.size_bytes for leaf in instruction.leaves),
            is_feed=instruction.attributes.get("custom_call_target", "") in _FEEDS,
            frame=self.frames.number(instruction.frame),
        )
        self.pinned.emit(node, [tuple(leaf for operand in operands for leaf in operand)], value, scope)
        return value


def _calls_host(instruction: Instruction) -> bool:
    target = instruction.attributes.get("custom_call_target", "")
    return instruction.opcode in _HOST_TRANSFERS or (instruction.opcode == "custom-call" and ("callback" in target or target in _FEEDS))
