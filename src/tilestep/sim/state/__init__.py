"""What the system has at one moment: clocks and contents of IPUs, sums of programs."""
