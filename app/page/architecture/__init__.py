"""The diagram of the model and what steers it: stage, controls, header, tour, strip of layers."""
