"""The target ``tensorrt-rtx``: compiled without the device, and never run here."""

PACKAGE = "tensorrt_rtx"
ENGINE = "model.engine"
ROUNDED = "model.rounded.onnx"
