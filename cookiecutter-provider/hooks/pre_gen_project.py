"""Refuses a name that cannot be the name of a plugin."""

import re
import sys

NAME = "{{ cookiecutter.name }}"

if not re.fullmatch(r"[a-z][a-z0-9_-]*", NAME):
    sys.exit(f"{NAME!r} cannot name a plugin: use lower-case letters, digits, - and _")
