"""Write held-out images for the sample: python samples/digits/make_input.py OUT.npz [INDEX ...]."""

import sys

import numpy as np
from model import data


def main(arguments: list[str]) -> None:
    """Write images, (count, 1, 8, 8) float32; the first four held-out ones unless told otherwise."""
    if not arguments:
        sys.exit("usage: python samples/digits/make_input.py OUT.npz [INDEX ...]")
    path, *indices = arguments
    _, images, _, labels = data()
    rows = [int(index) for index in indices] or [0, 1, 2, 3]
    np.savez(path, images=images[rows])
    print(f"{path}: images of {', '.join(str(label) for label in labels[rows])}")


if __name__ == "__main__":
    main(sys.argv[1:])
