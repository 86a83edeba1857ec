"""A model in parts: stages of a pipeline, and layers for a plan. Only `model` imports it."""
