"""Every kind of call to every kind of model, made without a network and judged.

    python -m swink_judge.matrix                  # all providers that are asked by HTTP requests
    python -m swink_judge.matrix openai azure     # some
    python -m swink_judge.matrix --help

A case is a model's id (the catalogue's, dated, fine-tuned, an alias, a successor that nobody has
announced), a conversation and options. It goes through a client as an application's call does; the
request is read where it would leave, and `swink_judge` says what the real API would.
"""
