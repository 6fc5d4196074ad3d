"""Damaged responses before both HTTP clients: `python -m lab.transports --number 100000 --seed 1`.

Each response is drawn from a seed: a valid one, damaged by a few mutations, cut into reads, and
ended by a close, a reset or silence. Both clients receive the same reads, in the same event loop,
without a network: connections are made to a server in memory. The program compares status,
headers, body, how the body ended, and whether the next request uses the same connection and gets
its own answer. Each difference needs a row in `EXPLAINED`; the program fails for any other.
"""
