"""Settings of the process for the tests of the kit."""

import signal
import sys
from pathlib import Path

# A shell passes an ignored interrupt on to what it runs in the background, and Python leaves it
# ignored; the server that a test starts and interrupts would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

sys.path.append(str(Path(__file__).parent))  # helpers, in a checkout and in an unpacked sdist
