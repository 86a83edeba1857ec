"""A graph under construction: its proto, nodes, types, and the places in the program that made them. It imports no other room."""
