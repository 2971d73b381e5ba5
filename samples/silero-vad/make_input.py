"""Write one call's input for the sample: python samples/silero-vad/make_input.py OUT.npz [CHUNK]."""

import sys

import numpy as np
from model import CHUNKS, clips, start


def main(arguments: list[str]) -> None:
    """Write audio (4, 512), a chunk of each clip (the first by default), and a new stream's state."""
    if not arguments:
        sys.exit("usage: python samples/silero-vad/make_input.py OUT.npz [CHUNK]")
    path, *chunk = arguments
    index = int(chunk[0]) if chunk else 0
    context, h, c = start(4)
    np.savez(path, audio=clips()[:, index], context=context, h=h, c=c)
    print(f"{path}: chunk {index} of {CHUNKS} of 4 clips")


if __name__ == "__main__":
    main(sys.argv[1:])
