"""Write a page of text, and what each network sees of it: python samples/ocr/make_input.py FOLDER."""

import sys
from pathlib import Path

import numpy as np
from page import LINES, classifier_input, detector_input, line, page, recogniser_input


def main(arguments: list[str]) -> None:
    """Write page.png, and x, float32, in det.npz (the page), cls.npz (each line both ways up) and rec.npz."""
    if len(arguments) != 1:
        sys.exit("usage: python samples/ocr/make_input.py FOLDER")
    folder, lines = Path(arguments[0]), [line(text) for text in LINES]
    folder.mkdir(parents=True, exist_ok=True)
    page().save(folder / "page.png")
    arrays = {
        "det": detector_input(page()),
        "cls": classifier_input([*lines, *(image.rotate(180) for image in lines)]),
        "rec": recogniser_input(lines),
    }
    for kind, x in arrays.items():
        np.savez(folder / f"{kind}.npz", x=x)
        print(f"{folder / kind}.npz: {list(x.shape)}")


if __name__ == "__main__":
    main(sys.argv[1:])
