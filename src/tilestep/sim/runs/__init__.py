"""How runs of programs move the state of the system: parts of a run, their steps, and the order in which a group's runs are played."""
