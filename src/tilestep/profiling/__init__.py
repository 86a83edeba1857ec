"""Doors above the platform: profiles, dry runs, reports of programs, and where JAX finds the platform."""
