"""The interface of OpenAI, as its clients use it."""
