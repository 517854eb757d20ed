"""Conversation: generate the next turn of a dialogue, given the turns before it (Vinyals and Le 2015)."""
