"""How runs of programs move that state: parts of a run, their steps, and the order in which a group's runs are played."""
