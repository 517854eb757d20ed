"""LibreTranslate's HTTP interface, as its clients use it."""
