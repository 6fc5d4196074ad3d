"""Values as TOML writes them, in the form that the rows of a catalogue have."""

from __future__ import annotations

from typing import Any


def toml_of(value: Any) -> str:
    """Return a value as it stands behind an equals sign. Raises TypeError for what has no form."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return f"{value:_}"
        case float():
            return repr(value) if value != int(value) else f"{value:.1f}"
        case str() if "\\" in value and "'" not in value:
            return f"'{value}'"
        case str():
            return '"{}"'.format(value.replace("\\", "\\\\").replace('"', '\\"'))
        case [dict(), *_]:
            return "[\n" + "".join(f"    {toml_of(item)},\n" for item in value) + "]"
        case list():
            return f"[{', '.join(map(toml_of, value))}]"
        case dict():
            return f"{{ {', '.join(f'{k} = {toml_of(v)}' for k, v in value.items())} }}"
    raise TypeError(f"no TOML for {value!r}")
