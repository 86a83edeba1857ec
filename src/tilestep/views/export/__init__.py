"""Recordings in the forms of other tools: Perfetto, Chrome's trace viewer, Parquet."""
