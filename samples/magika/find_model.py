"""Print where the package keeps its network: python samples/magika/find_model.py."""

from files import FOLDER

if __name__ == "__main__":
    print(FOLDER / "model.onnx")
