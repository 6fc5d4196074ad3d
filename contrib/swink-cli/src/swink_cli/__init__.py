"""The `swink` command line: ask any installed provider's model from a terminal.

Other distributions add commands through the entry-point group `swink.commands`. For these, the
names in `__all__` of the following modules are public; everything else may change at any time.

    exits        exit codes
    terminal     what people read beside the answer: notes, errors, tables
    listing      a command's output as text or JSON
    options      the options of a call
    prompts      what is asked: the prompt, what is piped in and attached
    clients      the client of a call, with what the user keeps for its providers; `chosen`: the
                 models that are meant by names, short ones too
    calling      a call, shown as it streams, stopped by Ctrl-C
    display      where a call is shown
    memory       where calls and conversations are kept
    summary      the numbers of an answer
    completion   providers and models, for a shell

The modules stand on three floors, each of which imports only from itself and those below: what a
person reads and writes (`terminal`, `display`, `files`), what commands share (`settings`,
`clients`, `calling`), and the commands with `main`. A module that serves one command stands in its
folder.
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # programs decide what is logged
