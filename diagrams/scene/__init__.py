"""What is drawn: a view as a graph, what a block opens to, what an edge carries, search, tour."""
