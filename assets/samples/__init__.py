"""Small pictures to try: `python -m k3scope.assets.samples` draws them anew."""

from pathlib import Path

from PIL import Image, ImageDraw

FOLDER = Path(__file__).parent
RED, BLUE, GREEN, YELLOW, PAPER = "#d1495b", "#2e5eaa", "#3c8d5a", "#edae49", "#f7f5ef"


def shapes() -> Image.Image:
    """A circle, a square and a triangle: whole patches, nothing to pad."""
    picture = Image.new("RGB", (224, 168), PAPER)
    draw = ImageDraw.Draw(picture)
    draw.ellipse((14, 42, 84, 112), fill=RED)
    draw.rectangle((98, 56, 154, 112), fill=BLUE)
    draw.polygon([(168, 126), (216, 126), (192, 56)], fill=GREEN)
    draw.rectangle((0, 140, 224, 168), fill=YELLOW)
    return picture


def ramp() -> Image.Image:
    """Red grows to the right, green downwards, blue in squares: every patch has its own colour."""
    places = [(x, y) for y in range(168) for x in range(168)]
    picture = Image.new("RGB", (168, 168))
    picture.putdata([(x * 255 // 167, y * 255 // 167, 200 * (x // 42 + y // 42 & 1)) for x, y in places])
    return picture


def ring() -> Image.Image:
    """A ring on nothing: transparent, and of a size that has to be padded."""
    picture = Image.new("RGBA", (150, 100), (0, 0, 0, 0))
    draw = ImageDraw.Draw(picture)
    draw.ellipse((30, 5, 120, 95), outline=BLUE, width=18)
    draw.line((10, 90, 140, 10), fill=YELLOW, width=8)
    return picture


DRAWN = {"shapes": shapes, "ramp": ramp, "ring": ring}


def path(name: str) -> Path:
    return FOLDER / f"{name}.png"


def main() -> None:
    for name, draw in DRAWN.items():
        draw().save(path(name), optimize=True)


if __name__ == "__main__":
    main()
