"""When a pipeline's programs start, and what comes of them."""
