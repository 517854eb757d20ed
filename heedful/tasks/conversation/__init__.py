"""Conversation: the next turn of a dialogue, given those before it (Vinyals and Le 2015)."""
