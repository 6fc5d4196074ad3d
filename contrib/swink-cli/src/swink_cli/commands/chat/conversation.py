"""A conversation that continues after failed calls, and its file format."""

from __future__ import annotations

from pathlib import Path

import swink_core as swink
from swink_cli.files import encode_json, read_json, replace_file, user_path

__all__ = ["Conversation", "read_conversation"]


class Conversation:
    """The messages so far, and the attachments of the next message."""

    def __init__(self, context: swink.Context) -> None:
        self.context = context
        self.attached: list[swink.Block] = []
        self.file: Path | None = None

    def ask(self, text: str) -> None:
        """Add the user's message, with its attachments."""
        content: str | list[swink.Block] = text
        if self.attached:
            content = [*self.attached, swink.TextBlock(text)]
            self.attached = []
        self.context.messages.append(swink.UserMessage(content))

    def answer(self, message: swink.AssistantMessage) -> None:
        """Add the model's answer, even if it is partial. An answer without content is not added."""
        if message.content:
            self.context.messages.append(message)

    def take_back(self) -> bool:
        """Remove the last answer, so that the question can be sent again.

        Returns True if the conversation then ends with a question or with tool results.
        """
        messages = self.context.messages
        end = len(messages)
        while end and isinstance(messages[end - 1], swink.AssistantMessage):
            end -= 1
        if end:
            del messages[end:]
        return end > 0

    def undo(self) -> bool:
        """Remove the last user message and all later messages; return True if any was removed."""
        messages = self.context.messages
        last = max(
            (n for n, m in enumerate(messages) if isinstance(m, swink.UserMessage)), default=-1
        )
        if last >= 0:
            del messages[last:]
        return last >= 0

    def save(self, path: Path, *, force: bool = False) -> None:
        """Write the conversation as JSON, atomically.

        Raises MediaError if the file cannot be written, or if it exists and `force` is false.
        """
        path = user_path(path)
        if path.exists() and not force and self.file != path.resolve():
            raise swink.MediaError(
                f"{path} exists",
                title="Nothing was saved",
                resolution=f"Choose another name, or overwrite the file: /save -f {path}",
            )
        data = encode_json(swink.dump(self.context), indent=1)
        try:
            replace_file(path, data)
        except OSError as error:
            raise swink.MediaError(
                f"{path}: {error.strerror or error}",
                title="Nothing was saved",
                resolution="Choose a file in an existing folder that you can write to.",
            ) from error
        self.file = path.resolve()


def read_conversation(path: Path) -> Conversation:
    """Read a conversation that `save` wrote. Raises MediaError if it is invalid."""
    path = user_path(path)
    data = read_json(path, "saved conversation", dict)
    try:
        context = swink.load(swink.Context, data, allow_files=True)
    except swink.CodecError as error:
        raise swink.MediaError(
            f"{path} is not a saved conversation: {error}",
            resolution="Load a file written by /save. The current conversation is unchanged.",
        ) from error
    conversation = Conversation(context)
    conversation.file = path.resolve()
    return conversation
