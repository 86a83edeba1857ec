"""Many steps for one call of the host."""
