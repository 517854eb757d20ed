"""Generators of the lecture's data: texts, stories and pictures, the same for the same seed."""
