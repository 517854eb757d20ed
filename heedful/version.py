"""Which version of heedful this is."""

__version__ = "0.1.0"
