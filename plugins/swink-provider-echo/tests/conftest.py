"""Where this folder's tests find what they share, in a checkout and in an unpacked sdist."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
