"""Test tools for authors of providers, observers and commands; nothing at run time needs it.

Each module is imported by its own name.

    conformance    what every provider promises, as checks
    observers      what observers and wrappers promise
    chaos          a hostile provider on loopback
    driver         bytes through a provider, or a client, with no network
    chunking       a body cut in every way
    clock          a clock that tests turn
    freeze         how long what a server sends holds the event loop
    oversized_json JSON data made large in one place
    mutants        faulty copies of a provider, by rule
    acme           a provider that exists only in tests
    command_line   `swink` as a process
    plugin         the fixtures `chaos` and `swink` (extra `swink-testing[pytest]`)
"""
