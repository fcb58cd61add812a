"""The descriptions joined with the live model: everything that the page says about a block."""
