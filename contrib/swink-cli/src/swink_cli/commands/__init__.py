"""The commands, one module each; `swink NAME` runs the object `command` of a module."""
