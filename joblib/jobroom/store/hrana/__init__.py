"""The network client of a libSQL server: statements in, rows out, one round trip at a time."""
