"""The cards of the models as pages of their own."""

from tornado.web import HTTPError

from k3scope.app.model_cards import card
from k3scope.app.page.http_headers import NonceHandler
from k3scope.app.page.kit import templates, theme
from k3scope.model.presets import TRAINED

PATH = r"/cards/([a-z0-9-]+)/README\.md"  # a card links to others by these paths


def card_page(name: str) -> str:
    """The card of a model with weights, as a page of its own."""
    return templates.render("model_card.html", model=name, card=card(name), colours=theme.drawing_colours())


class CardHandler(NonceHandler):
    """Serves the cards of the trained models; 404 for other names."""

    def get(self, name: str):
        if name not in TRAINED:
            raise HTTPError(404)
        self.write(card_page(name))
