"""The images attached to a prompt, as a visitor adds them, takes them out and scales them down."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future

import param

from k3scope.app.pool.pool import READING, submit
from k3scope.app.pool.task import error_of
from k3scope.app.runs import run_status, uploads
from k3scope.app.runs.ownership import Ownership
from k3scope.app.runs.uploads import MOST, Upload
from k3scope.model.vision.vision_config import VisionConfig

WHAT = "The image"


class Attachments(Ownership):
    """Images in the order of the prompt; what cannot be added becomes the problem.

    Files are decoded by the pool, one after the other for each visitor.
    """

    images = param.List([], item_type=Upload, doc="pictures before the prompt")
    received = param.Integer(0, doc="files that have arrived, attached or refused")
    problem = param.String("", doc="a sentence on what went wrong or differs")

    def __init__(self, execute: Callable, dispatch: Callable):
        super().__init__()
        self._execute, self._dispatch = execute, dispatch
        self._pieces: list[str] = []  # of the file that is arriving
        self._decoding: set[Future] = set()

    def receive(self, name: str, piece: str, part: int = 0, of: int = 1) -> None:
        """A file in base64, which is safe in any message, in pieces that come in order."""
        if part == 0:
            self._pieces = []
        whole = part == len(self._pieces) < of
        if not whole or sum(map(len, self._pieces)) + len(piece) > uploads.MOST_LETTERS:
            self._pieces = []
            self._refuse((uploads.TOO_LARGE if whole else uploads.NOT_WHOLE).format(name=name[:80]))
            return
        self._pieces.append(piece)
        if len(self._pieces) == of:
            encoded, self._pieces = "".join(self._pieces), []
            self._add(uploads.accept_encoded, name, encoded)

    def add(self, name: str, data: bytes) -> None:
        """A file that the visitor wants before the prompt."""
        self._add(uploads.accept, name, data)

    def add_sample(self, name: str) -> None:
        """One of the pictures that come with the program."""
        self._decode(self._attach, uploads.sample, name)

    def _add(self, accept: Callable[..., Upload], *args) -> None:
        def arrive(image: Upload) -> None:
            self.received += 1
            self._attach(image)

        self._decode(arrive, accept, *args, refuse=self._refuse)

    def _attach(self, image: Upload) -> None:
        if len(self.images) >= MOST:
            self.problem = f"{image.name} is one too many: a prompt takes at most {MOST} images."
            return
        try:
            uploads.held.add(image)
        except ValueError as error:
            self.problem = str(error)
            return
        self.param.update(images=[*self.images, image], problem="")

    def _refuse(self, why: str) -> None:
        self.param.update(problem=why, received=self.received + 1)

    def _say(self, why: str) -> None:
        self.problem = why

    def _decode(
        self, go_on: Callable[[Upload], None], accept: Callable[..., Upload], *args, refuse=None
    ) -> None:
        """Go on with what the pool makes of a file, or say why it is none."""
        refuse = refuse or self._say
        try:
            future = submit(READING, WHAT, accept, *args, visitor=id(self))
        except ValueError as error:
            refuse(str(error))
            return

        self._decoding.add(future)

        def act() -> None:
            self._decoding.discard(future)
            if error := error_of(future):
                refuse(str(error) if isinstance(error, ValueError) else run_status.failure(error, "image"))
            else:
                go_on(future.result())

        self._after(future, act)

    def cancel_reading(self) -> None:
        """Stop reading the files that have arrived and are no images yet."""
        for future in self._decoding:
            future.cancel()

    def _after(self, future: Future, act: Callable[[], None]) -> None:
        """Act when a future is done; at once if it is."""
        if future.done():
            act()
            return

        async def wait() -> None:
            await asyncio.wait([asyncio.wrap_future(future)])
            self._dispatch(act)

        self._execute(wait)

    def remove(self, index: int) -> None:
        """Take an image out again."""
        self.images = [image for i, image in enumerate(self.images) if i != index]

    def shrink(self, index: int, vit: VisionConfig | None) -> None:
        """Scale an image down so that its rows leave room for text, if there is a tower to read it."""
        if not vit or not 0 <= index < len(self.images):
            return
        large = self.images[index]

        def replace(smaller: Upload) -> None:
            images = [smaller if image is large else image for image in self.images]
            self.param.update(images=images, problem="")

        self._decode(replace, uploads.fitting, large, vit)
