"""What view Pipeline reads."""
