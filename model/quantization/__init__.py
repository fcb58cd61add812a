"""How quantised checkpoints are stored: which matrices, and the tensors that each becomes."""
