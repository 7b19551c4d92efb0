"""The HTTP door: requests to use cases, records to JSON, waiting; no rule of the queue."""
