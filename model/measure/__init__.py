"""Reducers: arrays of a trace in, small arrays for a picture out."""
