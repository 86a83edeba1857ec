"""The views of a report's page, by the names of their files, in the order of its navigation."""

VIEWS = ("findings", "source", "memory", "liveness", "program", "operations", "execution", "pipeline", "compare")
