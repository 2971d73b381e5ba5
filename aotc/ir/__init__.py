"""Helpers over onnx-ir: text form, verifier, scopes and walking."""
