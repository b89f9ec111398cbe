"""`python -m paceline.launch`: what each process that the launcher starts runs."""

import sys

from paceline.launch.rank_keeper import main

sys.exit(main(sys.argv[1:]))
