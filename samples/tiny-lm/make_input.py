"""Tokenise text for the sample: python samples/tiny-lm/make_input.py OUT.npz [TEXT]."""

import sys

import numpy as np
from model import EXAMPLE, MAX_SEQ, tokenize


def main(arguments: list[str]) -> None:
    """Write input_ids, (1, length) int64."""
    if not 1 <= len(arguments) <= 2:
        sys.exit("usage: python samples/tiny-lm/make_input.py OUT.npz [TEXT]")
    path, text = arguments[0], (arguments[1:] or [EXAMPLE])[0]
    if not 1 <= len(text) <= MAX_SEQ:
        sys.exit(f"the text has {len(text)} characters; the model takes 1 to {MAX_SEQ}")
    np.savez(path, input_ids=tokenize(text))
    print(f"{path}: {len(text)} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
