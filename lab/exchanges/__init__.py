"""Exchanges drawn at random, compared with the record of the simulated vendor.

    python -m lab.exchanges --seed 7 --count 1000
    python -m lab.exchanges --seed 7 --number 412     # one of them alone

Each exchange has its own vendor (`lab.vendor`) and one or two tenants. It goes through the library,
or through the gateway with plain HTTP. The caller's answers are compared with the requests, answers
and bills in the vendor's record. The package was written from the documentation of swink and of the
vendors' APIs, by an author who has not read swink's code.
"""
