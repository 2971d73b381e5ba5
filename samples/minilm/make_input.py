"""Tokenise text for the sample: python samples/minilm/make_input.py OUT.npz [SENTENCE ...]."""

import sys

import numpy as np
from model import EXAMPLES, tokenize


def main(arguments: list[str]) -> None:
    """Write input_ids and attention_mask, each (sentences, longest sentence) int64."""
    if not arguments:
        sys.exit("usage: python samples/minilm/make_input.py OUT.npz [SENTENCE ...]")
    path, *sentences = arguments
    input_ids, attention_mask = tokenize(sentences or EXAMPLES)
    np.savez(path, input_ids=input_ids, attention_mask=attention_mask)
    print(f"{path}: {input_ids.shape[0]} sentences, {input_ids.shape[1]} tokens")


if __name__ == "__main__":
    main(sys.argv[1:])
