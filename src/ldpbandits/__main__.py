"""Run the command line as `python -m ldpbandits`."""

import sys

from ldpbandits.cli import main

sys.exit(main())
