"""The error of a row that nothing here can run."""


class RowError(Exception):
    """A row whose words say something that nothing here can run: an unknown machine, dtype, unit, network or optimiser."""
