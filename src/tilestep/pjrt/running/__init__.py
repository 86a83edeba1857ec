"""What happens while programs run: the journal of events, waits, programs in flight, dry runs, and the end of the process."""
