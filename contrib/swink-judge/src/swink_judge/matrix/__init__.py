"""Every kind of call to every kind of model, made without a network and judged.

    python -m swink_judge.matrix                  # all providers that are asked by HTTP requests
    python -m swink_judge.matrix openai azure     # some
    python -m swink_judge.matrix --help

A case is a model id (from the catalogue, dated, fine-tuned, an alias, or an invented successor), a
conversation and options. It goes through a client like the call of an application. The request is
captured instead of being sent, and `swink_judge` decides whether the real API would reject it.
"""
