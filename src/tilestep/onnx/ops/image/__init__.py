"""Images: resizing them, reading between their elements, choosing boxes."""
