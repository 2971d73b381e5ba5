"""Security fault: the external-data location of a stored tensor points outside the model's folder."""

import torch
from torch import nn

source = "https://github.com/onnx/onnx/issues/3991 (also onnxruntime PR #26776, #28709)"
symptom = "A crafted model file reads any file of the host as weights."
right = "Loading the tampered file must be refused with a clear error, for '..' paths, absolute paths and symbolic links."
expect = "error: external data outside the model's folder"
dynamic_shapes = None


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(64, 64))

    def forward(self, x):
        return x @ self.w


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    return (torch.randn(2, 64),)


def more_inputs():
    return [(torch.zeros(2, 64),)]


def tamper(path, kind="dotdot"):
    """Rewrite the saved model at path so that its weight lies outside; kind: dotdot, absolute or symlink."""
    import os, onnx
    from onnx.external_data_helper import set_external_data

    m = onnx.load(path)
    folder = os.path.dirname(os.path.abspath(path))
    secret = os.path.join(os.path.dirname(folder), "secret.bin")
    t = next(i for i in m.graph.initializer if list(i.dims) == [64, 64])
    with open(secret, "wb") as f:
        f.write(b"\x11" * 64 * 64 * 4)
    loc = {"dotdot": "../secret.bin", "absolute": secret, "symlink": "link.bin"}[kind]
    if kind == "symlink":
        os.path.lexists(os.path.join(folder, loc)) or os.symlink(secret, os.path.join(folder, loc))
    t.raw_data = b"\0" * 64 * 64 * 4
    set_external_data(t, location=loc, offset=0, length=64 * 64 * 4)
    t.ClearField("raw_data")
    open(path, "wb").write(m.SerializeToString())
