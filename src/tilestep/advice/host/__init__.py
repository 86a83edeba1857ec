"""Findings on what goes between host and IPUs: loads, arguments, results, set-up, calls too small. It may import `memory` and `ipus`."""
