"""Targets: for each, what it lowers to and how its engine files are made."""
