"""Commands of `swink` for gateways, registered in the entry-point group `swink.commands`.

They need swink-cli.
"""
