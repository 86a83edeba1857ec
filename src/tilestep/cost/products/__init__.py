"""Products, convolutions and sums of their partial results on one tile, each method of poplin a file. It imports no other room."""
