"""Every operation of JAX on `ipu`, against JAX's own CPU platform."""
