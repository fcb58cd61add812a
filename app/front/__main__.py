"""`python -m k3scope` is `k3scope`."""

import sys

from k3scope.app.cli import main

sys.exit(main())
