from __future__ import annotations

import sys
from pathlib import Path

# `lab` is imported from the root of the checkout, however pytest was started
sys.path.insert(0, str(Path(__file__).parents[2]))
