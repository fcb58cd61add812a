"""The drawing of the model: what each block is, where it stands, what it costs."""
