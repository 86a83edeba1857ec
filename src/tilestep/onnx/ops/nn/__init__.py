"""Layers of networks: convolutions, pools, norms, attention, recurrence."""
