"""Our own interface: everything that models do, in the words and records of the commands."""
