"""What a program's author reads of a session: the log, debug contexts, and the environment variables that turn them on."""
