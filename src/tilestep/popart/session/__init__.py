"""Sessions: a model, its data flow, a device and an optimiser, run as compiled programs."""
