"""Interventions in a forward pass: what they are, where they act, and how they are made."""
