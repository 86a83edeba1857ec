"""Every use that the platform makes of private parts of JAX and jaxlib. A new JAX breaks the platform here first."""
