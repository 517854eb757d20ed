"""One file for each command; `commands` lists them."""
