"""Helpers beside these tests can be imported, in the checkout and in an unpacked sdist."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
