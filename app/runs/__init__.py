"""Runs of prompts: what a run is, who waits for which, the pass itself, and a visitor's session."""
