"""Bytes of the pointers and work lists of a product's vertices, as poplibs@7eac0f26 lib/poplin/ConvVertices.cpp makes them.

A vertex has a pointer to each region of its operands and results. For each kernel element and worker it has a list of the runs of
results that the worker computes.
"""

from itertools import pairwise

POINTER_BYTES = 4  # to one region; 16 bits cannot name all 8-byte words of a tile of Mk2: conv_partial_nx1_supervisor.S, ld32step
RUN_BYTES = 6  # offset of results, length, offset of inputs, a half word each: AMPWorkListEntry
LIST_BYTES = 4  # a list's offset and length: DELTAN in conv_partial_nx1_supervisor.S


def pointers_bytes(groups: int, in_blocks: int, out_blocks: int) -> int:
    """To each group of channels of inputs and of results, and to each pair's weights (createConvPartialAmpVertex)."""
    return POINTER_BYTES * groups * (in_blocks + in_blocks * out_blocks + out_blocks)


def runs(rows: int, row_length: int, workers: int) -> int:
    """Runs that the workers go over where they share the elements of all rows evenly (partitionConvPartialByWorker)."""
    elements = rows * row_length
    cuts = [worker * elements // workers for worker in range(workers + 1)]
    return sum((end - 1) // row_length - begin // row_length + 1 for begin, end in pairwise(cuts) if end > begin)


def one_element_bytes(groups: int, in_blocks: int, out_blocks: int, workers: int) -> int:
    """Of a vertex whose kernel is one element, and which has one run for each worker (ConvPartial1x1Out)."""
    return pointers_bytes(groups, in_blocks, out_blocks) + RUN_BYTES * workers


def by_element_bytes(groups: int, in_blocks: int, out_blocks: int, *, elements: int, rows: int, row_length: int, workers: int) -> int:
    """Of a vertex that goes over the rows of its results once for each kernel element (ConvPartialnx1)."""
    each = LIST_BYTES * workers + RUN_BYTES * runs(rows, row_length, workers)
    return pointers_bytes(groups, in_blocks, out_blocks) + elements * each
