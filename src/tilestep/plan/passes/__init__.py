"""What a program goes through before its operations are priced: passes over each computation, in this order.

The first undo what XLA:CPU does for the sake of a CPU, the others do what Poplar's libraries do. Files beside the passes say what runs
in one fusion, and in which order. No file prices an operation.
"""

from typing import Final

from tilestep.plan.passes.conv_copies import regrouped
from tilestep.plan.passes.fuse import with_less_kept
from tilestep.plan.passes.rematerialize import computed_again
from tilestep.program.cleanup import collapse_scopes, products_in_halves, reduce_halves, restore_halves
from tilestep.program.copies import without_needless_copies
from tilestep.program.passes import Pass
from tilestep.program.product_attributes import with_attributes

WRITTEN: Final[tuple[Pass, ...]] = (
    with_attributes,
    without_needless_copies,
    collapse_scopes,
    restore_halves,
    reduce_halves,
    products_in_halves,
)
PASSES: Final[tuple[Pass, ...]] = (*WRITTEN, regrouped, computed_again, with_less_kept)
