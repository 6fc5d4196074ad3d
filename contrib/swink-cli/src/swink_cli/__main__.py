"""`python -m swink_cli` is `swink`."""

import sys

from swink_cli.main import main

if __name__ == "__main__":
    sys.exit(main())
