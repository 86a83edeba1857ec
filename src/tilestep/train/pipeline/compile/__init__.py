"""What a pipeline's programs are."""
