"""The panel beside the stage: what a block is, and what the last run measured of it."""
