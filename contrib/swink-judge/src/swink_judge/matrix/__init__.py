"""Make every kind of call to every kind of model without a network, and check the requests.

    python -m swink_judge.matrix                  # all providers that use HTTP
    python -m swink_judge.matrix openai azure     # only these providers
    python -m swink_judge.matrix --help

A case consists of a model id (from the catalogue, dated, fine-tuned, an alias, or an invented
successor), a conversation and options. The call is made with `swink_core.Client`, as an application
would make it. The request is captured and not sent, and the rules of `swink_judge` decide whether
the real API would reject it.
"""
