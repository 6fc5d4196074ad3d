"""The gateway's configuration in a TOML file: routes, keys, limits and budgets."""

from swink_gateway.policy.config.reading import KEY_ENV, MOST_BYTES, ConfigError, Fault, Source
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
    "KEY_ENV",
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
