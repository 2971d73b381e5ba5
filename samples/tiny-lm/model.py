"""A small trained language model: a Llama-style decoder over bytes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_model
from torch import nn
from torch.export import Dim
from transformers import LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).resolve().parent
MAX_BATCH, MAX_SEQ = 4, 512

dynamic_shapes = {"input_ids": {0: Dim("batch"), 1: Dim("seq")}}
profiles = [{"batch": (1, 1, MAX_BATCH), "seq": (1, 64, MAX_SEQ)}]

EXAMPLE = 'The "with" statement is used to wrap the execution of a block'


class NextByte(nn.Module):
    """Bytes to the logits of the byte after each of them."""

    def __init__(self, lm: LlamaForCausalLM):
        super().__init__()
        self.lm = lm

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Predict the next byte at every position.

        Args:
            input_ids: (batch, seq) int64, ASCII codes; 0 ends a text.

        Returns:
            (batch, seq, 128) float32 logits.
        """
        return self.lm(input_ids=input_ids, use_cache=False).logits


def model() -> nn.Module:
    config = LlamaConfig.from_pretrained(HERE / "weights", attn_implementation="sdpa")
    lm = LlamaForCausalLM(config)
    load_model(lm, HERE / "weights" / "model.safetensors")  # raises if a weight is missing or left over
    return NextByte(lm).eval()


def tokenize(text: str) -> np.ndarray:
    """Text to (1, length) int64: the code of each character; anything but ASCII is an error."""
    return np.frombuffer(text.encode("ascii"), dtype=np.uint8).astype(np.int64)[None]


def heldout_windows() -> np.ndarray:
    """The held-out text in windows that do not overlap: (45, 512) int64."""
    ids = tokenize((HERE / "heldout.txt").read_text(encoding="ascii"))[0]
    return ids[: len(ids) // MAX_SEQ * MAX_SEQ].reshape(-1, MAX_SEQ)


def inputs() -> tuple[torch.Tensor]:
    text = torch.from_numpy(tokenize(EXAMPLE))
    return (torch.cat([text, text.flip(1)]),)


def more_inputs() -> list[tuple[torch.Tensor]]:
    windows = torch.from_numpy(heldout_windows())
    return [
        (torch.zeros(1, 1, dtype=torch.int64),),
        (windows[:1, :2],),
        (windows[:3, :77],),
        (torch.full((2, 33), 127),),  # a byte that no text contains
        (windows[:MAX_BATCH],),
    ]


def accuracy(run: Callable[..., np.ndarray]) -> float:
    """Minus the bits per byte on the held-out text (0.0 is best)."""
    bits, count = 0.0, 0
    windows = heldout_windows()
    for start in range(0, len(windows), MAX_BATCH):
        ids = windows[start : start + MAX_BATCH]
        logits = run(ids)[:, :-1].astype(np.float64)
        right = np.take_along_axis(logits, ids[:, 1:, None], axis=-1)[..., 0]
        bits += float(np.sum(np.logaddexp.reduce(logits, axis=-1) - right) / np.log(2))
        count += right.size
    return -bits / count
