"""The page in the browser: the only folder that imports Panel and Bokeh."""
