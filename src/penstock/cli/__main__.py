"""`python -m penstock.cli`, if scripts are not on the path."""

import sys

from penstock.cli import main

sys.exit(main())
