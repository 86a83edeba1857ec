"""Compiled programs: their HLO, their plan, their counters, the computation of their values, and their form as bytes."""
