"""How a product or convolution is split over the tiles: searches that see one `Work`, the machine and `tilestep.cost`, nothing else."""
