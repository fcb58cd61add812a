"""Files the program reads: styles, scripts, templates, official configurations, weights of small models."""

from pathlib import Path

ROOT = Path(__file__).parent
JS, CSS, TEMPLATES, IMAGES = ROOT / "js", ROOT / "css", ROOT / "templates", ROOT / "images"
CONFIGS, FONTS, MODELS = ROOT / "configs", ROOT / "fonts", ROOT / "models"
