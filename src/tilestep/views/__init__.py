"""What a user sees of a run: its profile as text, JSON and a page, and exports for other tools."""
