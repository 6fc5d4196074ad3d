"""{{ cookiecutter.title }}: watches every event of every call."""

import swink_core as swink


class {{ cookiecutter.class_name }}:
    """Counts how calls end. An observer must not block, change events or keep them."""

    api_level = 1

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        if isinstance(event, swink.Done | swink.Error):
            outcome = f"{call.model.provider}: {event.stop_reason}"
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
