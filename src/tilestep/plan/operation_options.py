"""Options that single operations have for themselves, as frontend attributes of HLO."""

from typing import final

from tilestep.errors import SettingsError
from tilestep.options import PREFIX, PlanOptions
from tilestep.plan.block import scope_of
from tilestep.program.hlo import Instruction


@final
class OperationOptions:
    """The options of each operation of a program: its own, else the program's.

    Args: options: of the program.
    """

    def __init__(self, options: PlanOptions) -> None:
        self._program = options
        self._known: dict[str, PlanOptions] = {}  # by text of the frontend attributes

    def of(self, instruction: Instruction) -> PlanOptions:
        """The options of an operation.

        Raises: SettingsError naming the operation, if an option of its own is unknown or has a value that is not allowed.
        """
        text = instruction.attributes.get("frontend_attributes")
        if text is None:
            return self._program
        known = self._known.get(text)
        if known is None:
            own = {key: value for key, value in instruction.frontend_attributes.items() if key.startswith(PREFIX)}
            try:
                known = self._known[text] = self._program.of_operation(own)
            except SettingsError as error:
                raise SettingsError(f"operation {scope_of(instruction) or instruction.name!r}: {error}") from None
        return known
