"""One program in several processes: starting, watching, meeting, and arrays between them."""
