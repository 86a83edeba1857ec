"""What view Execution reads: the events of all lanes, what runs did inside, the critical path and all waits."""
