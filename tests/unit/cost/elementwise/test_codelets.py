"""The prices of elementwise operations against the table that they are from: poplibs@7eac0f26 lib/popops/popopsCycleEstimators.hpp."""

from tests.together import each
from tests.unit.cost.machines import TOY, array
from tilestep.cost import elementwise_fusion
from tilestep.cost.elementwise.codelets import CODELETS, WITH_SCALAR
from tilestep.cost.elementwise.rates import BUNDLES

Entry = tuple[int, bool, int]  # cyclesPerLoop, naturalVectorWidth, loopUnrollFactor
_DTYPES = {"FLOAT": "f32", "HALF": "f16", "INT": "s32"}
_WIDTH = {"FLOAT": 2, "HALF": 4, "INT": 2}  # of a natural vector (64 bits)
_SUMS = ("add", "subtract", "multiply")
_BITS = ("and", "or", "xor", "shift-left", "shift-right-logical", "shift-right-arithmetic")
_SEVEN: dict[str, Entry] = {"INT": (7, False, 1)}
_SIX: dict[str, Entry] = {"INT": (6, False, 1)}

UNARY: dict[str, dict[str, Entry]] = {  # unaryOpPerfInfo
    "abs": {"FLOAT": (1, False, 0), "HALF": (1, False, 0), "INT": (2, False, 0)},
    "asin": {"FLOAT": (102, False, 0), "HALF": (102, False, 0)},
    "not": {"INT": (1, True, 0)},
    "cbrt": {"FLOAT": (27, True, 0), "HALF": (17, True, 0)},
    "ceil": {"FLOAT": (2, True, 0), "HALF": (2, True, 0)},
    "cosine": {"HALF": (25, False, 1)},
    "count-leading-zeros": {"INT": (1, False, 0)},
    "erf": {"FLOAT": (41, False, 1), "HALF": (13, False, 1)},
    "exponential": {"FLOAT": (6, False, 2), "HALF": (4, False, 4)},
    "exponential-minus-one": {"FLOAT": (4, False, 0), "HALF": (5, True, 0)},
    "exp2": {"FLOAT": (6, False, 2), "HALF": (4, False, 4)},
    "floor": {"FLOAT": (2, True, 0), "HALF": (2, True, 0)},
    "is-finite": {"FLOAT": (5, True, 0), "HALF": (5, True, 0)},
    "log": {"FLOAT": (12, False, 2), "HALF": (4, False, 4)},
    "log-plus-one": {"FLOAT": (18, True, 0), "HALF": (18, True, 0)},
    "negate": {"FLOAT": (2, False, 2), "HALF": (2, False, 4), "INT": (2, False, 0)},
    "popcnt": {"INT": (1, False, 0)},
    "round-nearest-even": {"FLOAT": (2, True, 0), "HALF": (2, True, 0)},  # NEARBY_INT
    "round-nearest-afz": {"FLOAT": (2, True, 0), "HALF": (2, True, 0)},
    "sign": {"FLOAT": (5, True, 0), "HALF": (5, True, 0), "INT": (5, False, 0)},
    "sine": {"HALF": (25, False, 1)},
    "sqrt": {"FLOAT": (10, False, 2), "HALF": (23, False, 4)},
    "tanh": {"FLOAT": (12, False, 2), "HALF": (4, False, 4)},
    "logistic": {"FLOAT": (12, False, 2), "HALF": (6, False, 4)},
    "rsqrt": {"FLOAT": (8, False, 2), "HALF": (19, False, 4)},
}
UNARY_IN_PLACE: dict[str, dict[str, Entry]] = {  # where unaryOpInPlacePerfInfo has less
    "abs": {"FLOAT": (1, True, 0), "HALF": (1, True, 0)},
    "tanh": {"FLOAT": (10, False, 2), "HALF": (2, False, 4)},
    "logistic": {"FLOAT": (10, False, 2), "HALF": (4, False, 4)},
}
_SUM: dict[str, Entry] = {"FLOAT": (1, True, 0), "HALF": (1, True, 0), "INT": (7, False, 1)}
BINARY: dict[str, dict[str, Entry]] = {  # binaryOpPerfInfo
    **dict.fromkeys(_SUMS, _SUM),
    "atan2": {"FLOAT": (272, False, 2), "HALF": (578, False, 4)},
    **dict.fromkeys(_BITS, _SEVEN),
    "divide": {"FLOAT": (10, False, 2), "HALF": (21, False, 4), "INT": (277, False, 1)},
    "maximum": {"FLOAT": (3, False, 2), "HALF": (4, False, 4), "INT": (7, False, 1)},
    "minimum": {"FLOAT": (3, False, 2), "HALF": (4, False, 4), "INT": (7, False, 1)},
    "power": {"FLOAT": (312, False, 1), "HALF": (325, False, 1), "INT": (32, False, 1)},
    "remainder": {"FLOAT": (133, False, 2), "HALF": (300, False, 4), "INT": (292, False, 1)},
    "compare": {"FLOAT": (14, False, 4), "HALF": (9, False, 4), "INT": (22, False, 4)},  # EQUAL
}  # fmt: skip
_SUM_OF_SCALAR: dict[str, Entry] = {**_SUM, "INT": (6, False, 1)}
BROADCAST: dict[str, dict[str, Entry]] = {  # broadcastOpPerfInfo
    **dict.fromkeys(_SUMS, _SUM_OF_SCALAR),
    **dict.fromkeys(_BITS, _SIX),
    "divide": {"FLOAT": (6, False, 2), "HALF": (8, False, 2), "INT": (277, False, 1)},
    "maximum": {"FLOAT": (3, False, 2), "HALF": (3, False, 4), "INT": (6, False, 1)},
    "minimum": {"FLOAT": (3, False, 2), "HALF": (3, False, 4), "INT": (6, False, 1)},
    "power": {"FLOAT": (312, False, 1), "HALF": (325, False, 1), "INT": (23, False, 1)},
    "remainder": {"FLOAT": (93, False, 2), "HALF": (225, False, 4), "INT": (280, False, 1)},
    "compare": {"FLOAT": (12, False, 4), "HALF": (8, False, 4), "INT": (16, False, 4)},
}  # fmt: skip


def turn_of(entry: Entry, dtype: str, overhead: int) -> tuple[int, int]:
    """As binaryOpInnerLoopCycles and unaryOpInnerLoopCycles of popopsCycleEstimators.cpp make it of an entry."""
    cycles, natural, unroll = entry
    if natural or not unroll:
        return cycles + overhead, _WIDTH[dtype] if natural else 1
    return cycles, unroll


@each("opcode", sorted({*UNARY, *BINARY}))
def test_a_codelet_takes_what_the_table_says(opcode: str) -> None:
    entries = UNARY.get(opcode) or BINARY[opcode]
    overhead = 4 if opcode in UNARY else 2
    for dtype, entry in entries.items():
        assert CODELETS[opcode][list(_DTYPES).index(dtype)] == turn_of(entry, dtype, overhead), dtype


@each("opcode", sorted(BROADCAST))
def test_a_codelet_with_a_scalar_takes_what_its_table_says(opcode: str) -> None:
    for dtype, entry in BROADCAST[opcode].items():
        assert WITH_SCALAR[opcode][list(_DTYPES).index(dtype)] == turn_of(entry, dtype, 1), dtype


def test_no_codelet_has_a_price_that_no_source_has() -> None:
    elsewhere = {"select", "clamp", "convert"}  # popopsCycleEstimators.cpp, PerformanceEstimation.cpp
    assert set(CODELETS) == {*UNARY, *BINARY, *elsewhere}
    assert set(WITH_SCALAR) == set(BROADCAST)


@each("opcode", sorted({*UNARY, *BINARY} - {"maximum", "minimum", "compare", "negate"}))  # these by their instructions
def test_within_an_expression_an_operation_takes_a_vector_of_the_table_or_a_turn_of_its_quickest_codelet(opcode: str) -> None:
    tables = [table[opcode] for table in (UNARY, UNARY_IN_PLACE, BINARY, BROADCAST) if opcode in table]
    for column, dtype in enumerate(("FLOAT", "HALF")):
        width = _WIDTH[dtype]
        entries = [table[dtype] for table in tables if dtype in table]
        found = [entry[0] * (1 if entry[1] else width // (entry[2] or 1)) for entry in entries]
        if found:
            assert BUNDLES[opcode][column] == min(found), dtype


def test_a_codelet_is_not_charged_for_loads_and_stores_again() -> None:
    # 4,800 halves on 4 tiles x 6 workers: 200 a worker, 50 turns of 23 cycles.
    shape = array("f16[4800]")
    cost = elementwise_fusion([("sqrt", "f16")], size=4800, inputs=[shape], outputs=[shape], ipu=TOY)
    assert cost.compute_cycles == 11 + 6 * (20 + 50 * 23)


def test_a_sum_with_a_row_takes_a_bundle_less_a_vector() -> None:
    full, row = array("f16[48,100]"), array("f16[100]")
    sums = [elementwise_fusion([("add", "f16")], size=4800, inputs=[full, other], outputs=[full], ipu=TOY) for other in (full, row)]
    assert [cost.compute_cycles for cost in sums] == [11 + 6 * (20 + 50 * 3), 11 + 6 * (20 + 50 * 2)]
