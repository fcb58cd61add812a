"""Checkpoints in the official layout: opened, written, counted, run layer by layer."""
