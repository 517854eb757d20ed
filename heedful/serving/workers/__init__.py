"""Models that compute in processes of their own, which leave Python's one thread at a time to HTTP."""
