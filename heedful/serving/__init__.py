"""Trained models behind HTTP: what programs and people ask, batched as it comes, within limits."""
