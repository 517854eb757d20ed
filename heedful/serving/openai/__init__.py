"""OpenAI's HTTP interface, as its clients use it."""
