"""The target ``ort-cpu``: an ONNX Runtime session on the CPU."""

NAME = "ort-cpu"
PORTABLE = "model.onnx"
OPTIMISED = "model.ort-optimised.onnx"
WEIGHTS = "weights"
OPTIMISED_WEIGHTS = "weights.ort-optimised"
INLINE_BYTES = 1024
"""Smaller tensors stay in the ONNX file, where they cost nothing."""
