"""The YAML files and their language: blocks, views, formulas, shapes, citations."""
