"""Set up the process in which the command tests run."""

import signal

# A shell passes an ignored interrupt on to what it runs in the background, and Python leaves it
# ignored; the programs that these tests start and interrupt would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
