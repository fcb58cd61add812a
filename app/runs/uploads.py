"""Pictures that a visitor adds to a prompt: checked, named by their bytes, shown small."""

import base64
import binascii
import hashlib
import io
import math
import threading
import weakref
from dataclasses import dataclass, field, replace
from functools import cached_property

from PIL import Image

from k3scope.app.pool.task import Refused
from k3scope.assets import samples
from k3scope.model.vision.preprocess import read, target_size
from k3scope.model.vision.vision_config import VisionConfig

MOST = 4  # images of one prompt
MOST_BYTES = 8 * 2**20  # of one file; one message to the server holds it, and a third more in base64
MOST_LETTERS = 4 * (MOST_BYTES // 3 + 1)  # of one file in base64
PIECE = 2**20  # letters of base64 that one message carries
MOST_HELD = 256 * 2**20  # bytes of the images of all visitors together
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")  # some others would start programs
TOO_LARGE = "{name} has more than " + f"{MOST_BYTES >> 20} MB, the most that an image has here."
NOT_WHOLE = "{name} did not arrive whole; please add it again."
THUMB = 96  # pixels of the longer side
COMFORTABLE = 1024  # rows to which an image that does not fit is scaled
SAMPLES = {"shapes": "Shapes", "ramp": "Colour ramp", "ring": "Ring on nothing, padded"}


@dataclass(frozen=True)
class Upload:
    """One picture as it came: the run is named by its bytes."""

    name: str
    data: bytes = field(repr=False)
    size: tuple[int, int]  # width, height
    note: str = ""  # what a reader should know about how it is read
    thumb: str = field(default="", repr=False)  # a data URI

    @cached_property
    def sha(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def rows(self, vit: VisionConfig) -> int:
        """How many rows of the text it becomes."""
        width, height = target_size(*self.size, vit.patch, vit.max_side)
        return math.ceil(width / vit.pixels) * math.ceil(height / vit.pixels)


class Held:
    """Counts the bytes of the images in memory, so that many visitors with large ones do not fill it."""

    def __init__(self, most: int = MOST_HELD):
        self._most, self.bytes = most, 0
        self._lock = threading.RLock()  # a collection of garbage may let go of one while another is added

    def add(self, upload: Upload) -> None:
        """Count an image until nothing refers to it any more. Refused when there is no room for it."""
        size = len(upload.data)
        with self._lock:
            if self.bytes + size > self._most:
                raise Refused("There is no room for more images here now; please try again later.")
            self.bytes += size
        weakref.finalize(upload, self._let_go, size)

    def _let_go(self, size: int) -> None:
        with self._lock:
            self.bytes -= size


held = Held()


def accept(name: str, data: bytes) -> Upload:
    """A file that is a picture. ValueError says why it is none."""
    name = name.strip()[:80] or "the image"
    if len(data) > MOST_BYTES:
        megabytes = len(data) / 2**20
        raise ValueError(f"{name} has {megabytes:.1f} MB; an image here has at most {MOST_BYTES >> 20} MB.")
    try:
        picture = read(data, FORMATS)
        moves = bool(getattr(picture, "is_animated", False))
        upload = Upload(name, data, picture.size, "first frame only" if moves else "", _thumb(picture))
        upload.sha  # noqa: B018 - hashed here, where nobody waits, and handed on
        return upload
    except ValueError as error:
        raise ValueError(f"{name}: {str(error).removeprefix('the image: ')}.") from None
    except (OSError, EOFError, IndexError, SyntaxError):  # found while looking for a second frame
        raise ValueError(f"{name}: broken image.") from None


def accept_encoded(name: str, encoded: str) -> Upload:
    """A file in base64 that is a picture. ValueError says why it is none."""
    try:
        return accept(name, base64.b64decode(encoded, validate=True))
    except binascii.Error:
        raise ValueError(NOT_WHOLE.format(name=name[:80])) from None


def sample(name: str) -> Upload:
    """One of the pictures that come with the program."""
    if name not in SAMPLES:
        raise ValueError(f"there is no sample image {name!r}; there are {', '.join(SAMPLES)}")
    return accept(SAMPLES[name], samples.path(name).read_bytes())


def fitting(upload: Upload, vit: VisionConfig) -> Upload:
    """The picture scaled down until it becomes at most COMFORTABLE rows; a new file, so a new run."""
    smaller, scale = upload, 1.0
    while smaller.rows(vit) > COMFORTABLE:
        scale *= 0.97
        smaller = replace(upload, size=tuple(max(1, int(side * scale)) for side in upload.size))
    if smaller is upload:
        return upload
    picture = read(upload.data, FORMATS)
    picture = picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    picture = picture.resize(smaller.size, Image.Resampling.BICUBIC)
    return replace(accept(upload.name, _png(picture)), note="scaled down")


def _thumb(picture: Image.Image) -> str:
    small = picture.convert("RGBA")
    small.thumbnail((THUMB, THUMB))
    return "data:image/png;base64," + base64.b64encode(_png(small)).decode()


def _png(picture: Image.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()
