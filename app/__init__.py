"""The page: composes the model and its drawing into what a visitor sees."""
