"""The level of the plugin API that this core offers, and a check of the level that a plugin needs.

A plugin sets `api_level` to the number of the level for which it was written: in its entry of
`models.toml`, which is read before the plugin is imported, or as an attribute of the plugin. The
default is level 1. For the guarantees of a level, see docs/explanation/plugin-api-level.md.
"""

from __future__ import annotations

from swink_core.failures.exceptions import PluginError

API_LEVEL = 1
"""The newest level of the plugin API that this core offers."""

OLDEST_API_LEVEL = 1
"""Plugins that were written for an older level do not work with this core."""

FIRST_API_LEVEL = 1
"""The level of a plugin that does not state one."""


def check_level(level: object, plugin: object) -> None:
    """Raise PluginError if this core does not offer the level that a plugin needs."""
    if not isinstance(level, int) or isinstance(level, bool):
        raise PluginError(
            f"{plugin} states the plugin API level {level!r}, which is not a whole number",
            resolution=f"Write the number of the level that it was written for: {API_LEVEL}.",
        )
    if OLDEST_API_LEVEL <= level <= API_LEVEL:
        return
    offered = f"level {API_LEVEL}"
    if OLDEST_API_LEVEL != API_LEVEL:
        offered = f"levels {OLDEST_API_LEVEL} to {API_LEVEL}"
    what = f"{plugin} is written for plugin API level {level}; this swink-core offers {offered}"
    hint = "Upgrade the plugin, or install an older swink-core."
    if level > API_LEVEL:
        hint = "Upgrade swink-core, or install an older version of the plugin."
    raise PluginError(what, resolution=hint)
