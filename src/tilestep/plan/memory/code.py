"""Memory of a program's code on a tile, by the kinds of code that Poplar's own report lists.

Steps that differ in their names only share one compute set and one exchange (poplibs caches plans, and the frameworks outline
repeated parts). A repetition costs only a call, of as many steps as follow each other again. All steps that run a codelet share it.
docs/reference/memory.md, section Code, compares the figures with Poplar's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from types import MappingProxyType

from tilestep.cost import StepCost
from tilestep.cost.dtypes import VECTOR_BYTES
from tilestep.cost.step import Footprint
from tilestep.machine.spec import IpuSpec
from tilestep.plan.products.conv import convolution_of
from tilestep.plan.steps import Branch, Collective, HostCall, Loop, Node, Program, Series, Superstep, leaves
from tilestep.plan.tile_layout import even_layout
from tilestep.program.work import DTYPE_BITS, Work
from tilestep.units import ceil_div

# Bytes of the codelets of a family of steps: instructions in the assembly of graphcore/poplibs@7eac0f26, 4 bytes each.
CODELET_BYTES = MappingProxyType(
    {
        "matmul": 920 + 664 + 1_148,  # conv_partial_1x1_supervisor.S, conv_partial_1x1_float_float_16.S (of halves 420 bytes), ReduceAdd.S
        "convolution": 2_324 + 848 + 72 + 1_148,  # conv_partial_nx1_supervisor.S, ..._float_float_16.S, ..._zero_output.S, ReduceAdd.S
        "reduce": 368 + 672,  # ContinuousReductionNoAcc.S, ReductionSpecial01NoAcc.S
        "window": 840,  # Pooling.S
        "gather": 504,  # MultiSlice.S
        "scatter": 980,  # MultiUpdateOp.S
        "dynamic-slice": 832,  # dynamicSlice1D.S
        "sort": 280,  # CompareAndSwapAtDistanceKeyVal_float_unsigned.S
    }
)
OTHER_CODELET_BYTES = 530  # mean of the 95 files of assembly there that hold code
# A fused expression is a codelet of its own: loop and ends as of one that computes next to nothing (unaryOps1DNonLinearity.S
# has 412 bytes), and for each operation a pair of instructions in the vector loop and in the loop over the rest. Assumed.
EXPRESSION_BYTES = 256
OPERATION_BYTES = 32
# The strided copies of Poplar's runtime bring operands into the order that a codelet needs. Their code is not published; the mean
# above is taken for all of them together.
COPY_CODELETS_BYTES = OTHER_CODELET_BYTES
_COPIES = "strided copies"  # among the names of codelets

# Poplar's report of a program that adds two numbers, of 1,216 tiles (graphcore/tensorflow docs, "Reading the Poplar textual
# summary report"): control code 851,272 B, host exchange code 351,328 B and packet headers 10,512 B.
PROGRAM_CONTROL_BYTES = 700
HOST_EXCHANGE_BYTES = 298
# A dense layer has 100 KiB of control code of its own and 178 KiB of vertex state, 48 KiB of which any program has, lists not
# included, on 1,472 tiles (graphcore/tensorflow-addons auto_pipeline tests, profiler_test.py): here two steps, a product and a pass.
STEP_CONTROL_BYTES = 36
STEP_STATE_BYTES = 45
CALL_BYTES = 8  # two instructions: of a repeated step, and of an arm or a body
STREAM_BYTES = 16  # a streamed argument or result takes a packet's header and two instructions. Assumed

# Exchange code is written per tile, an instruction for each message that it receives (poplibs DynamicSlice.cpp counts 4 bytes
# for each; ConvReducePlan.cpp counts messages) and, of what it sends, an address and an instruction for every 64 words.
ENTRY_BYTES = 32  # sync, set-up and return: eight instructions. Assumed
RECEIVED_BYTES = 4
SENT_BYTES = 8
LONGEST_SEND_BYTES = 256  # 64 words: osmarks/ipu-stack docs/EXCHANGE_INSTRUCTION_REFERENCE.md, 6-bit count
REARRANGES = frozenset({"copy", "rearrange"})  # families that change the order of elements
VECTORS_PER_GROUP = 4  # a group of channels of the matrix unit: 16 halves or 8 floats
# Each step of a bitonic network has an exchange and vertices of its own (poplibs BitonicTopK.cpp). A tile's share of an array is two
# runs, the lower and the higher partners, and each run comes from two tiles, since the step before it had other partners.
PIECES_OF_A_SWAP = 4
SWAP_LIST_BYTES = 4 + 16  # a worker's pointer, and seven or more short integers in whole words (`WorklistBuilder`)
GROUP_ELEMENTS = 16  # a message of a rearrangement carries one group of channels

_END = Series(nodes=())
_CODE = attrgetter(*(each.name for each in fields(Superstep) if each.name not in ("name", "scope", "frame")))  # equal: the same code


@dataclass(frozen=True, kw_only=True)
class StepCode:
    """One step's share of a program's code: a codelet, and on the busiest tile instructions of exchanges and state of vertices."""

    codelet: str  # equal for steps that run the same codelet
    codelet_bytes: int
    exchange_bytes: int
    state_bytes: int = STEP_STATE_BYTES


def code_of(work: Work, step: StepCost, ipu: IpuSpec) -> StepCode:
    """Of an operation with an estimator of its own."""
    shapes = work.operands or work.results
    dtype = shapes[0].dtype if shapes else ""
    variant = "+".join(work.body_opcodes)
    state = STEP_STATE_BYTES
    if step.footprint is not None:
        exchange = _entered(step, _product_bytes(work, step.footprint, ipu))
        state = STEP_STATE_BYTES + step.footprint.list_bytes
    elif step.family == "sort":
        exchange, state = _network_bytes(work, step, ipu)
    elif step.family in REARRANGES:
        pieces = ceil_div(step.exchange_bytes, max(1, GROUP_ELEMENTS * DTYPE_BITS[dtype] // 8 if dtype else 0))
        exchange = _entered(step, (RECEIVED_BYTES + SENT_BYTES) * pieces)
    else:
        exchange = _by_longest(step)
    return StepCode(
        codelet=f"{step.family} {work.opcode} {dtype} {variant}",
        codelet_bytes=CODELET_BYTES.get(step.family, OTHER_CODELET_BYTES),
        exchange_bytes=exchange,
        state_bytes=state,
    )


def code_of_fusion(operations: Sequence[tuple[str, str]], step: StepCost) -> StepCode:
    """Of a fusion of elementwise operations. Args: operations: opcode and dtype of each."""
    return StepCode(
        codelet=" ".join(f"{opcode}<{dtype}>" for opcode, dtype in operations),
        codelet_bytes=EXPRESSION_BYTES + OPERATION_BYTES * len(operations),
        exchange_bytes=_by_longest(step),
    )


def _product_bytes(work: Work, footprint: Footprint, ipu: IpuSpec) -> int:
    """Instructions that bring a product's operands and add up its partial sums.

    A tile receives its block of an operand in one message from each tile that holds a part and, where a window moves over rows, one for
    each row of a group of channels. It sends what it holds once to all who want it.
    """
    found = 0
    for number, (shape, received) in enumerate(zip(work.operands, footprint.received_bytes, strict=False)):
        if not received:
            continue
        held = piece = even_layout(shape.size_bytes, ipu.num_tiles).tile_bytes
        if number == 0 and work.opcode == "convolution":
            problem = convolution_of(work)
            if problem.taps > 1:
                piece = min(held, problem.field[-1].inputs * VECTORS_PER_GROUP * VECTOR_BYTES)
        found += RECEIVED_BYTES * ceil_div(received, max(1, piece)) + _sends_bytes(held)
    if not footprint.stages:
        return found
    # Of partial sums a tile receives one message for each that it adds, and sends its own in one piece: each receiver takes its slice.
    each = ceil_div(footprint.sums_bytes, footprint.stages)
    return found + RECEIVED_BYTES * footprint.fan_in + footprint.stages * _sends_bytes(each)


def _network_bytes(work: Work, step: StepCost, ipu: IpuSpec) -> tuple[int, int]:
    """Instructions of the exchanges of a bitonic network and state of its vertices."""
    messages = PIECES_OF_A_SWAP * max(len(work.operands), len(work.results))
    exchange = _entered(step, (RECEIVED_BYTES + SENT_BYTES) * messages)
    state = STEP_STATE_BYTES + ipu.tile.worker_contexts * SWAP_LIST_BYTES
    return step.compute_sets * exchange, step.compute_sets * state


def _by_longest(step: StepCost) -> int:
    """Pieces as long as one instruction can send."""
    return _entered(step, (RECEIVED_BYTES + SENT_BYTES) * ceil_div(step.exchange_bytes, LONGEST_SEND_BYTES))


def _sends_bytes(held_bytes: int) -> int:
    """Code with which a tile sends its part of an operand, once to all tiles that need it."""
    return SENT_BYTES + RECEIVED_BYTES * (ceil_div(held_bytes, LONGEST_SEND_BYTES) - 1)


def _entered(step: StepCost, instructions_bytes: int) -> int:
    return ENTRY_BYTES + instructions_bytes if step.exchange_bytes else 0


def code_bytes(nodes: Sequence[Node], *, streams: int) -> dict[str, int]:
    """Bytes per tile of everything that is loaded with a program but its constants, by kind.

    Args: streams: arrays that come from the host or go there; one that does both counts twice.
    """
    codelets: dict[str, int] = {}
    numbers: dict[tuple[object, ...], int] = {}  # steps that share their code have one number
    followed: set[tuple[int, int]] = set()  # a step, and the one whose code was written behind it
    control, exchange, state, calls = PROGRAM_CONTROL_BYTES, 0, 0, 0
    before: int | None = None
    for node in _all(nodes):
        last, before = before, None
        match node:
            case Superstep():
                known = len(numbers)
                before = numbers.setdefault(_CODE(node), known)
                if before < known:
                    control += 0 if last is not None and (last, before) in followed else CALL_BYTES
                    continue
                if last is not None:
                    followed.add((last, before))
                state += node.vertex_state_bytes
                control += STEP_CONTROL_BYTES * node.compute_sets
                exchange += node.exchange_code_bytes
                codelets[node.codelet] = node.codelet_bytes
            case Series():
                pass
            case Collective(groups=groups):
                control += STEP_CONTROL_BYTES
                exchange += ENTRY_BYTES + (RECEIVED_BYTES + SENT_BYTES) * max(map(len, groups))
            case HostCall():
                control += STEP_CONTROL_BYTES
                calls += 1
            case _:
                control += CALL_BYTES
    vertices = sum(codelets.values()) + (COPY_CODELETS_BYTES if exchange else 0)
    host = HOST_EXCHANGE_BYTES + STREAM_BYTES * (streams + calls) if streams + calls else 0
    return {
        "vertex code": vertices,
        "exchange code": exchange,
        "control code": control,
        "vertex state": state,
        "host exchange code": host,
    }


def codelets_of(program: Program) -> dict[str, int]:
    """Bytes of the codelets that a program runs, by name: a tile has each once, in all programs that are loaded together."""
    found: dict[str, int] = {}
    for leaf in leaves(program.body):
        if isinstance(leaf, Superstep):
            found[leaf.codelet] = leaf.codelet_bytes
        if isinstance(leaf, Collective) or (isinstance(leaf, Superstep) and leaf.exchange_code_bytes):
            found[_COPIES] = COPY_CODELETS_BYTES
    return found


def fixed_bytes(ipu: IpuSpec) -> dict[str, int]:
    """Bytes per tile that a program finds taken, by kind."""
    return {"stacks": ipu.tile.stack_bytes, "reserved": ipu.tile.reserved_bytes}


def _all(nodes: Sequence[Node]) -> Iterator[Node]:
    """Every node of a tree but its sequences, and an empty one where a body or an arm ends."""
    for node in nodes:
        match node:
            case Series(nodes=inner):
                yield from _all(inner)
            case Loop(body=body):
                yield node
                yield from _all(body.nodes)
                yield _END
            case Branch(arms=arms):
                yield node
                for arm in arms:
                    yield from _all(arm.nodes)
                    yield _END
            case _:
                yield node
