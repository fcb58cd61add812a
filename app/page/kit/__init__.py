"""What the parts of the page share: templates, scripts, colours, dispatch to the browser."""
