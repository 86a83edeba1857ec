"""Graphs under construction: the Builder, its operators, names and settings."""
