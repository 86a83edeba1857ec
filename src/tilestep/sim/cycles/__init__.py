"""Cycles of a program's body on certain IPUs: steps, collectives, synchronisation. It knows no state."""
