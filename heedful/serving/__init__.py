"""Serve trained models over HTTP; requests of programs and people are batched as they arrive, within limits."""
