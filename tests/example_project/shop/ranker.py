"""The model: scores for a batch of baskets. It is a source of aotc as well."""

from __future__ import annotations

import torch
from torch import nn


class Ranker(nn.Module):
    """Embeds items, averages those that are there, and scores."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(50, 8)
        self.score = nn.Linear(8, 3)

    def forward(self, items: torch.Tensor, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        baskets = (self.items(items) * weight.unsqueeze(-1)).sum(1)
        return {"scores": self.score(torch.tanh(baskets))}


def model() -> nn.Module:
    torch.manual_seed(0)
    return Ranker().eval()


def inputs() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    items = torch.randint(0, 50, (2, 5), generator=generator)
    return {"items": items, "weight": torch.rand(2, 5, generator=generator)}


dynamic_shapes = {"items": {0: "batch", 1: "seq"}, "weight": {0: "batch", 1: "seq"}}
profiles = [{"batch": (1, 2, 4), "seq": (1, 5, 8)}]
