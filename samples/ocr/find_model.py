"""Print where the package keeps a network: python samples/ocr/find_model.py det|cls|rec."""

import sys
from importlib.util import find_spec
from pathlib import Path

FILES = {
    "det": "ch_PP-OCRv4_det_infer.onnx",
    "cls": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "rec": "ch_PP-OCRv4_rec_infer.onnx",
}


def main(arguments: list[str]) -> None:
    """Print a path inside the installed package, which itself is not imported: that would take OpenCV."""
    if len(arguments) != 1 or arguments[0] not in FILES:
        sys.exit(f"usage: python samples/ocr/find_model.py {'|'.join(FILES)}")
    found = find_spec("rapidocr_onnxruntime")
    if found is None or found.origin is None:
        sys.exit("not installed here: pip install --no-deps rapidocr-onnxruntime==1.4.4")
    print(Path(found.origin).parent / "models" / FILES[arguments[0]])


if __name__ == "__main__":
    main(sys.argv[1:])
