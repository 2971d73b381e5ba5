"""Write what the network sees of files: python samples/magika/make_input.py OUT.npz [FILE ...]."""

import sys
from pathlib import Path

import numpy as np
from files import EXAMPLES, tokens


def main(arguments: list[str]) -> None:
    """Write bytes, (count, 2048) int32; files of this repository unless told otherwise."""
    if not arguments:
        sys.exit("usage: python samples/magika/make_input.py OUT.npz [FILE ...]")
    path, *named = arguments
    files = [Path(name) for name in named] or EXAMPLES
    np.savez(path, bytes=tokens(files))
    print(f"{path}: {', '.join(file.name for file in files)}")


if __name__ == "__main__":
    main(sys.argv[1:])
