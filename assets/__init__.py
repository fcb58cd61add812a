"""Files the program reads: styles, scripts, official configurations."""

from pathlib import Path

ROOT = Path(__file__).parent
