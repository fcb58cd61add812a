"""The Lab on the page: pictures of a run, linked to one token, layer and head."""
