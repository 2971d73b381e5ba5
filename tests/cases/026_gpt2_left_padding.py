"""Batching fault: left-padded batch; position ids must come from the mask, not from arange."""

import torch
from torch import nn
from torch.export import Dim
from transformers import GPT2Config, GPT2LMHeadModel

source = "https://github.com/huggingface/optimum/pull/1381 (also PR #2326)"
symptom = (
    "Exported decoders give wrong results for batch > 1 because position_ids is left out of the graph inputs."
)
right = "Eager numerics on the real tokens of every row; a padded row equals the same prompt alone."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC})


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.lm = GPT2LMHeadModel(GPT2Config(vocab_size=60, n_positions=32, n_embd=24, n_layer=2, n_head=3))

    def forward(self, ids, mask):
        pos = (mask.long().cumsum(-1) - 1).clamp(min=0)
        out = self.lm(input_ids=ids, attention_mask=mask, position_ids=pos, use_cache=False).logits
        return out * mask[..., None].to(out.dtype)


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, t, n):
    g = torch.Generator().manual_seed(b + t)
    m = torch.ones(b, t, dtype=torch.long)
    m[0, :n] = 0
    return torch.randint(0, 60, (b, t), generator=g), m


def inputs():
    return _x(2, 6, 2)


def more_inputs():
    return [_x(3, 9, 5), _x(1, 4, 0), _x(2, 3, 1)]
