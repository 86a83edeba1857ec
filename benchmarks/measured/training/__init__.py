"""Published training runs: their conditions, their programs, and what tilestep says of them."""
