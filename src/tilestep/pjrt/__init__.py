"""The door to JAX: a PJRT plugin named `ipu` whose values XLA:CPU computes. Nothing here is public; JAX finds `plugin`."""
