"""Worker processes that compute, so that Python's single running thread is left to HTTP."""
