"""The worker runtime: it finds a program's jobs, claims their tasks and runs them in slots."""
