"""A project with a model of its own."""
