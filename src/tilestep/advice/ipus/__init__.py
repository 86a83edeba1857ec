"""Findings on what IPUs do inside of programs: supersteps, dtypes, collectives, stages of pipelines. It may import `user_code`."""
