"""The door between layers and the emulated machine: which division of a model is the fastest that fits, and how sure that is."""
