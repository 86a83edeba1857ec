"""The user's code as advice names it: the lines that call, wait and jit, read from files that a recording names. It imports no rule."""
