"""The link, and the state of a view that it writes and reads."""
