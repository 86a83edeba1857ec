"""Findings on memory: what does not fit, or nearly fills the tiles, and what would free some. It may import `user_code`."""
