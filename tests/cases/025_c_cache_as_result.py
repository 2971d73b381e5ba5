"""KV-cache fault: a decoder that makes its own cache and returns it."""

import torch
from torch import nn
from torch.export import Dim
from transformers import GPT2Config, GPT2LMHeadModel

source = "https://github.com/pytorch/pytorch/issues/155862 (also #153998)"
symptom = "The cache object in the result is of a class that the exporter does not know."
right = "Logits, and the keys and values of each layer."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        config = GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=32)
        self.lm = GPT2LMHeadModel(config)

    def forward(self, ids):
        out = self.lm(input_ids=ids, use_cache=True)
        return {"logits": out.logits, "cache": out.past_key_values}


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    return (torch.tensor([[1, 2, 3], [4, 5, 6]]),)


def more_inputs():
    return [(torch.tensor([[7, 8, 9, 10, 11]]),), (torch.tensor([[49]] * 3),)]
