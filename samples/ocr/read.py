"""Read a page with the three bundles: python samples/ocr/read.py BUNDLES IMAGE."""

import sys
from pathlib import Path

import numpy as np
import onnx
from page import classifier_input, detector_input, recogniser_input
from PIL import Image

import aotc


def text_lines(likelihood: np.ndarray, image: Image.Image) -> list[Image.Image]:
    """Cut the image, (height, width), into lines: runs of rows in which there is likely text.

    The detector is trained to find the core of a line: three quarters of its height are added on all sides.
    """
    found = likelihood > 0.3
    edges = np.flatnonzero(np.diff(found.any(axis=1), prepend=False, append=False))
    lines = []
    for top, bottom in edges.reshape(-1, 2):
        columns, margin = np.flatnonzero(found[top:bottom].any(axis=0)), 3 * (bottom - top) // 4
        lines.append(image.crop((columns[0] - margin, top - margin, columns[-1] + margin, bottom + margin)))
    return lines


def characters_of(bundle: Path) -> list[str]:
    """Return the character of each class; the file has them in its metadata, and so has the bundle."""
    model = onnx.load(bundle / "model.onnx", load_external_data=False)
    [listed] = [entry.value for entry in model.metadata_props if entry.key == "character"]
    return ["", *listed.splitlines(), " "]


def decode(probabilities: np.ndarray, characters: list[str]) -> str:
    """Return the text of one line, (steps, classes): repeated classes count once, class 0 is no character."""
    best = probabilities.argmax(axis=1)
    return "".join(characters[i] for i in best[np.diff(best, prepend=0) != 0])


def main(arguments: list[str]) -> None:
    """Print the lines of the page; the ones that stand upside down are turned first."""
    if len(arguments) != 2:
        sys.exit("usage: python samples/ocr/read.py BUNDLES IMAGE")
    bundles, image = Path(arguments[0]), Image.open(arguments[1]).convert("L")
    with (
        aotc.load(bundles / "det") as detector,
        aotc.load(bundles / "cls") as classifier,
        aotc.load(bundles / "rec") as recogniser,
    ):
        [likelihood] = detector.run(detector_input(image)).values()
        lines = text_lines(likelihood[0, 0], image)
        [turned] = classifier.run(classifier_input(lines)).values()
        lines = [image.rotate(180 * int(row.argmax())) for image, row in zip(lines, turned, strict=True)]
        [probabilities] = recogniser.run(recogniser_input(lines)).values()
    characters = characters_of(bundles / "rec")
    for row, angle in zip(probabilities, turned, strict=True):
        print(decode(row, characters) + (" (was upside down)" if angle.argmax() else ""))


if __name__ == "__main__":
    main(sys.argv[1:])
