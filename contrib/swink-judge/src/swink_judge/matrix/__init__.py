"""Make every kind of call to every kind of model, without a network, and judge the requests.

    python -m swink_judge.matrix                  # all providers that use HTTP
    python -m swink_judge.matrix openai azure     # some
    python -m swink_judge.matrix --help

A case is a model id (from the catalogue, dated, fine-tuned, an alias, or an invented successor), a
conversation and options. It goes through a client like the call of an application. The request is
captured instead of being sent, and `swink_judge` decides whether the real API would reject it.
"""
