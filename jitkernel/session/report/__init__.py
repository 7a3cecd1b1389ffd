"""What is reported of a session: faults, names of addresses, source lines, memory, watches."""
