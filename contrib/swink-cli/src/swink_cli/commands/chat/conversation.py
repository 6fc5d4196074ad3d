"""A conversation that outlives its failures, and the file that it is kept in."""

from __future__ import annotations

from pathlib import Path

import swink_core as swink
from swink_cli.files import encode_json, read_json, replace_file, user_path

__all__ = ["Conversation", "read_conversation"]


class Conversation:
    """Messages so far, with what is attached to the next one."""

    def __init__(self, context: swink.Context) -> None:
        self.context = context
        self.attached: list[swink.Block] = []
        self.file: Path | None = None

    def ask(self, text: str) -> None:
        """Add the user's turn, with what is attached."""
        content: str | list[swink.Block] = text
        if self.attached:
            content = [*self.attached, swink.TextBlock(text)]
            self.attached = []
        self.context.messages.append(swink.UserMessage(content))

    def answer(self, message: swink.AssistantMessage) -> None:
        """Add what the model said, a part of an answer too; not one without content."""
        if message.content:
            self.context.messages.append(message)

    def take_back(self) -> bool:
        """Drop the last answer, so that its question can be asked again.

        Returns whether there is a question. Tool results count as one.
        """
        messages = self.context.messages
        end = len(messages)
        while end and isinstance(messages[end - 1], swink.AssistantMessage):
            end -= 1
        if end:
            del messages[end:]
        return end > 0

    def undo(self) -> bool:
        """Drop the user's last message with all that came of it; return whether there was one."""
        messages = self.context.messages
        last = max(
            (n for n, m in enumerate(messages) if isinstance(m, swink.UserMessage)), default=-1
        )
        if last >= 0:
            del messages[last:]
        return last >= 0

    def save(self, path: Path, *, force: bool = False) -> None:
        """Write the conversation as JSON, whole or not at all.

        Raises MediaError where it cannot, or where another file would be lost.
        """
        path = user_path(path)
        if path.exists() and not force and self.file != path.resolve():
            raise swink.MediaError(
                f"{path} exists",
                title="Nothing was saved",
                resolution=f"Choose another name, or overwrite it: /save -f {path}",
            )
        data = encode_json(swink.dump(self.context), indent=1)
        try:
            replace_file(path, data)
        except OSError as error:
            raise swink.MediaError(
                f"{path}: {error.strerror or error}",
                title="Nothing was saved",
                resolution="Choose a file in a folder that exists and may be written to.",
            ) from error
        self.file = path.resolve()


def read_conversation(path: Path) -> Conversation:
    """Read a conversation that `save` wrote. Raises MediaError, saying what is wrong."""
    path = user_path(path)
    data = read_json(path, "saved conversation", dict)
    try:
        context = swink.load(swink.Context, data, allow_files=True)
    except swink.CodecError as error:
        raise swink.MediaError(
            f"{path} is not a saved conversation: {error}",
            resolution="It should hold what /save writes. The conversation at hand is unchanged.",
        ) from error
    conversation = Conversation(context)
    conversation.file = path.resolve()
    return conversation
