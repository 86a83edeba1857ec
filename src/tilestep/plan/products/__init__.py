"""How a product or convolution is split over the tiles: searches that see one `Work`, the machine and its costs, not the program."""
