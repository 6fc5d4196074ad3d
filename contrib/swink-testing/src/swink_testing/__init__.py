"""Test tools for authors of providers, observers and commands. Programs do not need them at run
time.

Each module is imported by its own name.

    conformance    the conformance checks of providers observers      the conformance checks of
    observers and wrappers chaos          a hostile provider on loopback driver         passes bytes
    through a provider or a client, in memory chunking       splits a response body into chunks in
    every way clock a clock that a test advances freeze         measures how long a server's data
    blocks the event loop oversized_json JSON data made large in one place mutants        generates
    copies of a provider with one fault each acme a provider that exists only in tests command_line
    `swink` as a process plugin the fixtures `chaos` and `swink` (extra `swink-testing[pytest]`)
"""
