"""Files of a checkpoint folder: which tensor is where, and its numbers mapped into memory."""
