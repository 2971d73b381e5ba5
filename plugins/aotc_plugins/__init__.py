"""Operators of our own: reference, kernel and target forms. None yet."""
