"""State fault: forward changes a registered buffer that later calls read (running counter / cache inside the module)."""

import torch
from torch import nn

source = "https://github.com/pytorch/pytorch/issues/112256 (also #114406, #123971)"
symptom = "Either export fails on add_, or the update is dropped and every call answers like the first one."
right = "Clear refusal (state must become explicit input/output), or the state exposed as an extra output; never silently frozen."
expect = "error: forward mutates module state (buffer 'steps')"
dynamic_shapes = None


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        self.steps.add_(1.0)
        return x * self.steps


def model():
    return M().eval()


def inputs():
    return (torch.ones(3),)


def more_inputs():
    return [(torch.ones(3) * 2,), (torch.ones(3) * 3,)]
