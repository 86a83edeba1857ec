"""Recordings: what the emulator knows of a run, as tables of one open file that can be read, exported and played again."""
