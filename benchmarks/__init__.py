"""Questions about tilestep that take a run to answer. One file each; records in results/."""
