"""`python -m hermes_ctl`."""

import sys

from hermes_ctl.main import main

sys.exit(main())
