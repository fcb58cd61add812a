"""From a graph to a picture: where boxes stand, how edges run, and the SVG of it."""
