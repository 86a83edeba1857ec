"""One program in several processes: how they start, are watched, exchange values, and send arrays."""
