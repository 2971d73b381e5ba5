"""Stream the sample's clips through a bundle: python samples/silero-vad/stream.py BUNDLE."""

import sys

import numpy as np
from model import CHUNKS, clips

import aotc

NAMES = ["a low voice", "a high voice", "noise", "a voice that sets in"]


def main(arguments: list[str]) -> None:
    """Print a digit for each chunk of each clip: the probability of speech in tenths."""
    if len(arguments) != 1:
        sys.exit("usage: python samples/silero-vad/stream.py BUNDLE")
    with aotc.load(arguments[0]) as engine:
        session = engine.session()  # keeps context, h and c between the calls
        steps = [session.run(clips()[:, i])["probability"] for i in range(CHUNKS)]
    for name, probabilities in zip(NAMES, np.stack(steps, axis=1), strict=True):
        print("".join(str(int(10 * p)) for p in probabilities), name)


if __name__ == "__main__":
    main(sys.argv[1:])
