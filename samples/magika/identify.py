"""Say what files are: python samples/magika/identify.py BUNDLE [FILE ...]."""

import sys
from pathlib import Path

from files import EXAMPLES, LABELS, tokens

import aotc


def main(arguments: list[str]) -> None:
    """Print each file's likeliest type and its likelihood; files of this repository unless told otherwise."""
    if not arguments:
        sys.exit("usage: python samples/magika/identify.py BUNDLE [FILE ...]")
    bundle, *named = arguments
    files = [Path(name) for name in named] or EXAMPLES
    with aotc.load(bundle) as engine:
        probabilities = engine.run(tokens(files))["target_label"]
    for file, row in zip(files, probabilities, strict=True):
        print(f"{file.name}: {LABELS[row.argmax()]} ({row.max():.1%})")


if __name__ == "__main__":
    main(sys.argv[1:])
