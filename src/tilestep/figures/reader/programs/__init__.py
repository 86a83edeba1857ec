"""What the compiler made, read back: trees to walk, lines of the user's source, memory, prices. It knows no run."""
