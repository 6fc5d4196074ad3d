"""What plugin authors test with; each module is imported by its own name.

`recordings` reads and writes captured answers, `chunking` and `driver` put them through a
provider in memory, `server` replays them over a socket, `clock` is a clock that tests turn, and
`strategies` (extra `swink-core[testing]`) makes events and conversations for Hypothesis.
"""
