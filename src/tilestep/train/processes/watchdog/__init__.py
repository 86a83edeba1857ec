"""The process beside each process, which ends it when another one dies or stops. It imports `acceptor` and the standard library."""
