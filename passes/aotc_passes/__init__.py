"""Graph passes: raising, optimising and lowering, one folder a stage, one pass a file."""
