"""What an author watches in a pipeline: its marks, their keys, and what stages make of them."""
