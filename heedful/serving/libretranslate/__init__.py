"""The interface of LibreTranslate, as its clients use it."""
