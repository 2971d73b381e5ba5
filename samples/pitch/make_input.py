"""Write tones for the sample: python samples/pitch/make_input.py OUT.npz [HERTZ ...]."""

import sys

import numpy as np
from model import VIOLIN, tones


def main(arguments: list[str]) -> None:
    """Write frames, (count, 1024) float32; the strings of a violin unless told otherwise."""
    if not arguments:
        sys.exit("usage: python samples/pitch/make_input.py OUT.npz [HERTZ ...]")
    path, *frequencies = arguments
    hertz = [float(frequency) for frequency in frequencies] or VIOLIN
    np.savez(path, frames=tones(hertz))
    print(f"{path}: tones of {', '.join(f'{each:g}' for each in hertz)} Hz")


if __name__ == "__main__":
    main(sys.argv[1:])
