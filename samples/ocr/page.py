"""A page of text, and what detector, classifier and recogniser see of it."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

LINES = ["The quick brown fox", "jumps over 13 dogs", "and lands upside down"]
HEIGHT = 48
"""Of a line, in pixels: what recogniser and classifier were trained at."""
PAGE_WIDTH, SPACING = 448, 64
"""Of the page, in pixels. Its sides must be multiples of 32, by which the detector scales down."""


def line(text: str) -> Image.Image:
    """Return ``text`` in black on white, 48 pixels high."""
    font = ImageFont.load_default(32)
    image = Image.new("L", (int(font.getlength(text)) + 8, HEIGHT), "white")
    ImageDraw.Draw(image).text((4, 4), text, font=font)
    return image


def page() -> Image.Image:
    """Return the lines below each other, the last one upside down."""
    image = Image.new("L", (PAGE_WIDTH, SPACING * len(LINES)), "white")
    for index, text in enumerate(LINES):
        angle = 180 if index == len(LINES) - 1 else 0
        image.paste(line(text).rotate(angle), (16, SPACING * index + 8))
    return image


def pixels(image: Image.Image) -> np.ndarray:
    """Return a grey image as (3, height, width) float32 from -1 to 1; the three colours are the same."""
    return np.tile(np.asarray(image, dtype=np.float32) / 127.5 - 1, (3, 1, 1))


def width_at_height(image: Image.Image) -> int:
    """Return how wide a line becomes when it is scaled to 48 pixels of height."""
    return -(-HEIGHT * image.width // image.height)


def batch(images: list[Image.Image], width: int) -> np.ndarray:
    """Return lines as classifier and recogniser take them, (len(images), 3, 48, width) float32 from -1 to 1.

    Each is scaled to the height, and to the width if it is too wide then; zeros fill up what is left.
    """
    x = np.zeros((len(images), 3, HEIGHT, width), dtype=np.float32)
    for row, image in zip(x, images, strict=True):
        scaled = image.resize((min(width_at_height(image), width), HEIGHT))
        row[:, :, : scaled.width] = pixels(scaled)
    return x


def detector_input(image: Image.Image) -> np.ndarray:
    """Return a page as (1, 3, height, width) float32."""
    return pixels(image)[None]


def classifier_input(images: list[Image.Image]) -> np.ndarray:
    """Return lines as (len(images), 3, 48, 192) float32."""
    return batch(images, 192)


def recogniser_input(images: list[Image.Image]) -> np.ndarray:
    """Return lines as (len(images), 3, 48, at least 320) float32: as wide as the longest needs."""
    return batch(images, max(320, *map(width_at_height, images)))
