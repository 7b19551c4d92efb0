"""Rules in plain Python: no I/O, no clock reads, no third-party imports."""
