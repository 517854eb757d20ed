"""Heedful's own HTTP interface: every model function, with the options and records of the commands."""
