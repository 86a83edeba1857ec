"""`python -m tilestep`, and the entry point of the `tilestep` script."""

from __future__ import annotations

import sys

from tilestep.cli import main as main

if __name__ == "__main__":
    sys.exit(main())
