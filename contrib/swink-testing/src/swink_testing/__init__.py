"""What authors of providers, observers and commands test with; nothing at run time needs it.

Each module is imported by its own name.

    conformance    what every provider promises, as checks
    observers      what observers and wrappers promise
    judge          which requests the real APIs refuse
    strict         a server on loopback that takes what the real API takes
    matrix         every kind of call to every kind of model, judged
    chaos          a hostile provider on loopback
    fault_matrix   every such failure before every provider, as a test class
    driver         bytes through a provider, or a client, with no network
    chunking       a body cut in every way
    clock          a clock that tests turn
    freeze         how long what a server sends holds the event loop
    inflated       JSON data made large in one place
    canaries       credentials that name the provider they were given for
    mutation       broken answers and refusals of every installed provider
    strategies     conversations for Hypothesis (extra `swink-testing[pytest]`), events in
                   `event_strategies`
    acme           a provider that exists only in tests
    installed      distributions that a test installs
    command_line   `swink` as a process
    small_json     services that give tokens and the like (extra `swink-testing[json]`)
    plugin         the fixtures `chaos`, `small_json` and `swink` (extra `swink-testing[pytest]`)
"""
