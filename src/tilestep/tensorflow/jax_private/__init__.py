"""What the front end needs of private JAX: a program in StableHLO as a JAX primitive."""
