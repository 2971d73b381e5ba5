"""KV-cache fault: Hugging Face decoder called with a DynamicCache object as keyword input."""

import torch
from torch import nn
from torch.export import Dim
from transformers import LlamaConfig, LlamaForCausalLM, DynamicCache

source = "https://github.com/pytorch/pytorch/issues/155862 (also #153998)"
symptom = "Export refuses the cache object as an input type, or exports it with fixed length."
right = "Logits and new cache equal to eager at other batch, past and step lengths."
expect = "parity"
_c = {2: Dim.DYNAMIC, 0: Dim.DYNAMIC}
dynamic_shapes = {
    "input_ids": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC},
    "attention_mask": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC},
    "past_key_values": [_c, _c, _c, _c],
}


class M(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.lm = LlamaForCausalLM(cfg)

    def forward(self, input_ids, attention_mask, past_key_values):
        o = self.lm(
            input_ids=input_ids,
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            use_cache=True,
        )
        return o.logits, o.past_key_values


def model():
    torch.manual_seed(0)
    cfg = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    return M(cfg).eval()


def _x(b, t, p):
    g = torch.Generator().manual_seed(b + t + p)
    past = DynamicCache()
    for i in range(2):
        past.update(torch.randn(b, 2, p, 8, generator=g), torch.randn(b, 2, p, 8, generator=g), i)
    return {
        "input_ids": torch.randint(0, 64, (b, t), generator=g),
        "attention_mask": torch.ones(b, p + t, dtype=torch.long),
        "past_key_values": past,
    }


def inputs():
    return _x(2, 3, 4)


def more_inputs():
    return [_x(3, 2, 6), _x(2, 1, 9), _x(1, 5, 2)]
