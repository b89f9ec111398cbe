"""`python -m paceline`."""

import sys

try:
    from paceline.cli import main

    code = main()
except KeyboardInterrupt:  # before a verb runs there is nothing to end
    code = 130  # 128 and SIGINT, as `main` says it; nothing is imported that could be interrupted too
sys.exit(code)
