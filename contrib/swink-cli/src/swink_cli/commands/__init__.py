"""The commands, one module each; a module's `command` is what `swink NAME` runs."""
