"""Findings on host and IPUs together: loads, arguments, results, set-up, small calls. It may import `memory`, `ipus` and `user_code`."""
