"""What is told of a session: faults, names of addresses, source lines, memory, watches."""
