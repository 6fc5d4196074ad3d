"""What the gateway of a team is told in a TOML file: who answers, who may ask, and for how much."""

from swink_gateway.policy.config.reading import MOST_BYTES, ConfigError, Fault, Source
from swink_gateway.policy.config.schema import (
    Config,
    Key,
    Price,
    RequestGuard,
    Route,
    Rule,
    Transforms,
    Upstream,
    When,
)

__all__ = [
    "MOST_BYTES",
    "Config",
    "ConfigError",
    "Fault",
    "Key",
    "Price",
    "RequestGuard",
    "Route",
    "Rule",
    "Source",
    "Transforms",
    "Upstream",
    "When",
]
