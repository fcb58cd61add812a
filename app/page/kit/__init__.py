"""What the parts of the page share: templates, scripts, colours, messages from and to the browser."""
