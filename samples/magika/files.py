"""What the file classifier of the package magika reads and answers."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np


def _folder() -> Path:
    """The folder inside the installed package, which itself is not imported: it has dependencies."""
    found = find_spec("magika")
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            "this sample takes its network from a package that is not installed here: "
            "pip install --no-deps magika==1.0.3"
        )
    return Path(found.origin).parent / "models" / "standard_v3_3"


FOLDER = _folder()
_CONFIG = json.loads((FOLDER / "config.min.json").read_text(encoding="utf-8"))
LABELS: list[str] = _CONFIG["target_labels_space"]
_BLOCK, _PADDING = _CONFIG["block_size"], _CONFIG["padding_token"]
_BEGINNING, _END = _CONFIG["beg_size"], _CONFIG["end_size"]

SAMPLES = Path(__file__).parents[1]
EXAMPLES = [
    SAMPLES / "minilm/README.md",
    SAMPLES / "minilm/model.py",
    SAMPLES / "minilm/build.sh",
    SAMPLES / "tiny-lm/weights/config.json",
    SAMPLES / "tiny-lm/heldout-LICENSE.txt",
    FOLDER / "model.onnx",
]


def tokens(files: list[Path]) -> np.ndarray:
    """Return the ends of each file, (len(files), 2048) int32: a byte is its value, padding is 256.

    The first half is the file's first 1024 bytes, padded behind; the second half its last 1024 bytes, padded
    in front. Both are taken from 4096 bytes, without the white space at the file's edge.
    """
    rows = np.full((len(files), _BEGINNING + _END), _PADDING, dtype=np.int32)
    for row, file in zip(rows, files, strict=True):
        data = file.read_bytes()
        beginning = data[:_BLOCK].lstrip()[:_BEGINNING]
        end = data[-_BLOCK:].rstrip()[-_END:]
        row[: len(beginning)] = list(beginning)
        row[len(row) - len(end) :] = list(end)
    return rows
