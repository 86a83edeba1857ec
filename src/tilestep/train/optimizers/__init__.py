"""Optimisers of any kind with their state somewhere else: in the host's memory, or divided over replicas."""
