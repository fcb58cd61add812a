"""A forward pass and what is read off it: runs that show themselves, generation, comparison of traces."""
