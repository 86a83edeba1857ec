"""Everything around running programs: the journal of events, waits, programs in flight, dry runs, and the end of the process."""
