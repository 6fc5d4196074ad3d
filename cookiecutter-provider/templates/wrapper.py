"""{{ cookiecutter.title }}: changes every conversation before it is sent."""

from collections.abc import Generator

import swink_core as swink

SECRET = "hunter2"


class {{ cookiecutter.class_name }}:
    """Hides a word in the conversations that are sent. Replace this with your own change."""

    api_level = 1

    @swink.hookimpl(wrapper=True)
    def convert_messages(self) -> Generator[None, object, object]:
        payload = yield
        return _hidden(payload)


def _hidden(value: object) -> object:
    if isinstance(value, str):
        return value.replace(SECRET, "…")
    if isinstance(value, list):
        return [_hidden(item) for item in value]
    if isinstance(value, dict):
        return {key: _hidden(item) for key, item in value.items()}
    return value
