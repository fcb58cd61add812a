"""`python -m app` is `k3scope`."""

import sys

from app.cli import main

sys.exit(main())
