"""Exchanges drawn at random, compared with the record of the simulated vendor.

    python -m lab.exchanges --seed 7 --count 1000
    python -m lab.exchanges --seed 7 --number 412     # one of them alone

Each exchange has a vendor (`lab.vendor`) of its own and one or two tenants. It goes through the
library or through the gateway, with plain HTTP written from the documents of the clients' APIs. What
the caller gets is compared with what the vendor received, produced and billed. The package is
written from swink's documentation and the vendors' alone.
"""
