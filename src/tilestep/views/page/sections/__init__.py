"""What each view reads, one file for each: a function that makes a block of a recording, or None where the recording has nothing of it."""
