"""Edits of what a host program did: as if its author had written it otherwise. The edited calls are played again."""
