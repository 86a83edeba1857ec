"""Graphcore's layers of networks: norms, dropout, convolutions, recurrence, splines, and losses."""
