"""`python -m sessionsched`: the command line."""

import sys

from sessionsched.cli import main

if __name__ == "__main__":
    sys.exit(main())
