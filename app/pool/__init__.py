"""Work that takes a moment, done in processes beside the server: the event loop only passes messages."""
