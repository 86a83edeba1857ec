"""Every use of what is private in JAX."""
