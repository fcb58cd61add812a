"""The operators of the model: declaration, reference, and faster paths behind the same signature."""
