"""If, Loop, Scan, and gradients of graphs, with the turns of loops that depend on values."""
