"""The `swink` command line: ask any installed provider's model from a terminal.

Other distributions add commands through the entry-point group `swink.commands`. Such commands may
use the names in `__all__` of the following modules; everything else may change at any time.

    exits        exit codes
    terminal     text besides the answer: notices, errors, tables
    listing      prints a command's output as text or JSON
    options      the options of a call
    prompts      creates the prompt, with piped and attached input
    clients      creates the client of a call, with its stored keys and settings; `chosen` resolves
                 model names and aliases
    calling      shows a call as it streams, and stops it on Ctrl-C
    display      shows the events of a call
    memory       stores calls and conversations
    summary      formats the usage of an answer
    completion   completes providers and models in a shell

The modules form three layers. The lowest layer contains input and output (`terminal`, `display`,
`files`). The middle layer contains code that commands share (`settings`, `clients`, `calling`). The
highest layer contains the commands and `main`. A module imports only from its own layer and lower
ones. A module that serves a single command is in the folder of that command.
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # programs decide what is logged
