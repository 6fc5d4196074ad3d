"""`python -m swink_cli` is `swink`."""

import sys

from swink_cli.main import main

sys.exit(main())
