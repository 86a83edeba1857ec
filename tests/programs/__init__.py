"""Programs that people run."""
