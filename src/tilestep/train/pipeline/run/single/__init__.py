"""A whole run as one program, and whether it is."""
