"""Graphcore's own operators (domain ai.graphcore), in the importer's registry."""
