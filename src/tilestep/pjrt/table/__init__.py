"""The table of functions that JAX calls, but for those about programs: client, devices, memories, buffers and layouts."""
