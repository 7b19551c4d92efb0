"""The SDK: it speaks the REST contract over httpx and needs nothing of the server's parts."""
