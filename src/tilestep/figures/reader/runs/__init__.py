"""What ran, read back: runs, spans of their steps, events, blocks and causes. It may import `programs`."""
