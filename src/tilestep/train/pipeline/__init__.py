"""A model in stages on several devices."""
