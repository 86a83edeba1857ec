"""The commands of `tilestep report`, a file for each."""
