"""Version of heedful."""

__version__ = "0.2.0"
