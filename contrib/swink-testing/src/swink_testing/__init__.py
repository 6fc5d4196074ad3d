"""Tools for tests of providers, observers and commands.

Programs do not need this package at run time. Each module is imported separately.

    conformance      the conformance checks of providers
    observers        the conformance checks of observers and wrappers
    mutants          generates copies of a provider's package with one fault each
    chaos            a local server that simulates a faulty provider
    driver           runs a provider or a client on given response bytes, without a network
    chunking         splits a response body into network reads in many ways
    quiet            suppresses the log of calls that fail on purpose
    clock            a clock that a test advances
    freeze           measures how long the processing of a response blocks the event loop
    oversized_json   JSON data in which one value is very large
    calls            creates `Call` objects and clients
    acme             a provider with a minimal wire format, for tests
    command_line     runs `swink` as a process
    plugin           the pytest fixtures `chaos` and `swink` (extra `swink-testing[pytest]`)
"""
