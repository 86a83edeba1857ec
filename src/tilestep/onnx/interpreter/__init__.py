"""A graph and how it runs: values, implementations of operators, prepared nodes, what must be known. It imports no other room."""
