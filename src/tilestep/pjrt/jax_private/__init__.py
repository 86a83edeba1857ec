"""Every use that the platform makes of private parts of JAX and jaxlib. What a new JAX breaks, breaks here."""
