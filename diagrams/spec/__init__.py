"""What the YAML files say and their language: blocks, views, formulas, shapes, citations."""
