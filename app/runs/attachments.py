"""The images attached to a prompt, as a visitor adds them, takes them out and scales them down."""

import threading
from collections.abc import Callable

import param

from k3scope.app.runs.ownership import Ownership
from k3scope.app.runs.uploads import MOST, Upload, accept, fitting, sample
from k3scope.model.vision.vision_config import VisionConfig


class Attachments(Ownership):
    """Images in the order of the prompt; what cannot be added becomes the problem."""

    images = param.List([], item_type=Upload, doc="pictures before the prompt")
    problem = param.String("", doc="a sentence on what went wrong or differs")

    def __init__(self, **params):
        super().__init__(**params)
        self._adding = threading.Lock()  # files arrive side by side

    def add(self, name: str, data: bytes) -> None:
        """A file that the visitor wants before the prompt."""
        self._add(lambda: accept(name, data))

    def add_sample(self, name: str) -> None:
        self._add(lambda: sample(name))

    def _add(self, make: Callable[[], Upload]) -> None:
        try:
            image = make()
            with self._adding:
                if len(self.images) >= MOST:
                    raise ValueError(f"{image.name} is one too many: a prompt takes at most {MOST} images.")
                self.param.update(images=[*self.images, image], problem="")
        except ValueError as error:
            self.problem = str(error)

    def remove(self, index: int) -> None:
        with self._adding:
            self.images = [image for i, image in enumerate(self.images) if i != index]

    def shrink(self, index: int, vit: VisionConfig | None) -> None:
        """Scale an image down so that its rows leave room for text, if there is a tower to read it."""
        if vit and 0 <= index < len(self.images):
            images = [fitting(im, vit) if i == index else im for i, im in enumerate(self.images)]
            self.param.update(images=images, problem="")
