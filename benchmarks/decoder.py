"""A decoder of 236 million parameters (945 MB) with random weights, to see what size costs."""

import torch
from torch import nn
from torch.export import Dim
from transformers import Qwen2Config, Qwen2ForCausalLM

dynamic_shapes = {"input_ids": {0: Dim("batch"), 1: Dim("seq")}}
profiles = [{"batch": (1, 1, 2), "seq": (1, 16, 64)}]


class Logits(nn.Module):
    """Token ids to the logits of the token after each of them."""

    def __init__(self, lm: Qwen2ForCausalLM) -> None:
        super().__init__()
        self.lm = lm

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return (batch, seq, 32000) float32 logits of (batch, seq) int64 ids."""
        logits: torch.Tensor = self.lm(input_ids=input_ids, use_cache=False).logits
        return logits


def model() -> nn.Module:
    """Return the model; the seed makes every build the same."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=32000,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=12,
        num_attention_heads=14,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
    )
    return Logits(Qwen2ForCausalLM(config)).eval()


def inputs() -> tuple[torch.Tensor]:
    """Return two rows of 17 ids."""
    generator = torch.Generator().manual_seed(0)
    return (torch.randint(0, 32000, (2, 17), generator=generator),)
