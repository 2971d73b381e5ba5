"""Sources -> ONNX: loads what the user hands in and imports it as an ``ir.Model`` with its signature."""
