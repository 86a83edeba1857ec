"""Compiled programs: their HLO, their plan, their counters, what computes their values, and their form as bytes."""
