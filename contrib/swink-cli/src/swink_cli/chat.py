"""`swink chat`: turns, and commands that begin with a slash.

Nothing that goes wrong ends a conversation: what was asked and what arrived stay, and /retry asks
again. Credentials and addresses belong to the provider that they were given for, so that another
model in the middle gets its own.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import swink_core as swink
from swink_cli.calling import name_broken_plugins, name_unknown_models, show_call, show_end
from swink_cli.clients import make_client
from swink_cli.completion import model_names
from swink_cli.conversation import Conversation, read_conversation
from swink_cli.display import make_sink
from swink_cli.exits import EXIT_FAILURE, EXIT_INTERRUPTED
from swink_cli.files import media_block
from swink_cli.options import CallOptions
from swink_cli.reader import Reader
from swink_cli.settings import chosen
from swink_cli.terminal import say, show_error, table

__all__ = ["Chat"]

_PERSONAL = ("api_key", "base_url", "headers", "settings", "extra")
"""Options that are meant for one provider."""


class Chat:
    """A conversation, the models that answer it, and the commands that change either."""

    def __init__(self, call: CallOptions, *, plain: bool = False) -> None:
        self._call = call
        self._plain = plain
        self._models = call.models
        self._owner = call.models[0].partition("/")[0]
        self._client = make_client()
        self._conversation = Conversation(call.context([]))
        self._leaving = self._interactive = False
        self._failed = self._interrupted = False
        self._runner = asyncio.Runner()

    def run(self, file: str | None = None) -> int:
        """Talk until the user leaves, and return an exit code.

        From a script it is that of a failure if any answer failed; Ctrl-C ends a script.
        """
        self._open(self._models, "Hello")
        name_unknown_models(self._client, self._models)
        name_broken_plugins(self._client)
        if file is not None:
            self._load(file)
        with self._runner, Reader(_complete) as reader:
            try:
                self._interactive = reader.interactive
                if reader.interactive:
                    say(f"{', '.join(self._models)} · /help lists the commands, Ctrl-D leaves")
                self._loop(reader)
            finally:
                self._runner.run(self._client.aclose())
        if reader.interactive:
            return 0
        return EXIT_INTERRUPTED if self._interrupted else EXIT_FAILURE if self._failed else 0

    def _loop(self, reader: Reader) -> None:
        while not self._leaving and (reader.interactive or not self._interrupted):
            try:
                text = reader.read()
                if text:
                    self._take(text)
            except EOFError:
                if reader.interactive:
                    say("")  # the shell's prompt goes below, not behind ours
                return
            except KeyboardInterrupt:
                if not reader.interactive:
                    raise
                say("\n(Ctrl-D or /quit leaves)")
            except swink.SwinkError as error:
                self._failed = True
                show_error(error.title, error.message, error.resolution)
            except BrokenPipeError:
                raise
            except Exception as error:
                self._failed = True
                show_error("Unexpected failure", f"{type(error).__name__}: {error}")

    def _take(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        command = _COMMANDS.get(word)
        if command is not None:
            command.run(self, rest.strip())
        elif word.startswith("/") and word[1:].isalpha():
            near = difflib.get_close_matches(word, _COMMANDS, 1)
            raise swink.UsageError(
                f"no command {word}" + (f"; did you mean {near[0]}?" if near else ""),
                title="Unknown command",
                resolution="/help lists the commands.",
            )
        else:
            self._conversation.ask(text)
            self._answer()

    # -- answers -----------------------------------------------------------------------------

    def _answer(self) -> None:
        stream = self._open(self._models, self._conversation.context)
        try:
            display = self._runner.run(show_call(stream, make_sink(plain=self._plain)))
        except KeyboardInterrupt:
            self._leaving = True  # the stream would not be closed; nothing more can be asked
            raise
        finally:
            message = stream.message
            self._conversation.answer(message)
            self._interrupted = message.stop_reason is swink.StopReason.ABORTED
        if not show_end(stream, display):
            self._failed = True
            if not self._interrupted:
                say("the conversation is kept: /retry asks again, /undo takes the question back")
        if self._interactive:
            say("")

    def _open(self, models: list[str], conversation: swink.Context | str) -> swink.EventStream:
        """Make a call, of which nothing is sent before it is read. Raises for a wrong one."""
        options = dict(self._call.options)
        personal = {name: options.pop(name) for name in _PERSONAL if name in options}
        chain: list[Any] = [
            (model, personal) if model.partition("/")[0] == self._owner else model
            for model in models
        ]
        return self._client.stream(chain, conversation, **options)

    # -- commands ----------------------------------------------------------------------------

    def _model(self, words: str) -> None:
        if words:
            models = chosen(words.replace(",", " ").split())
            self._open(models, "Hello")
            name_unknown_models(self._client, models)
            self._models = models
        say(f"model: {', '.join(self._models)}")

    def _system(self, text: str) -> None:
        context = self._conversation.context
        if text:
            context.system_prompt = None if text == "-" else text
        say(f"system prompt: {context.system_prompt or 'none'}")

    def _image(self, path: str) -> None:
        self._attach(path, image=True)

    def _attach(self, path: str, image: bool = False) -> None:
        block = media_block(_path(path), image=image)
        self._conversation.attached.append(block)
        say(f"{block.type} attached to your next message")

    def _save(self, words: str) -> None:
        force = words.startswith("-f ")
        path = Path(_path(words.removeprefix("-f ")))
        self._conversation.save(path, force=force)
        say(f"saved {self._count()} to {path}")

    def _load(self, path: str) -> None:
        conversation = read_conversation(Path(_path(path)))
        if conversation.context.messages:
            self._open(self._models, conversation.context)
        if self._call.system is not None:
            conversation.context.system_prompt = self._call.system
        conversation.context.tools += self._call.tools
        self._conversation = conversation
        say(f"loaded {self._count()}")

    def _retry(self, _: str) -> None:
        if not self._conversation.take_back():
            raise swink.UsageError("nothing has been asked yet", title="Nothing to ask again")
        self._answer()

    def _undo(self, _: str) -> None:
        if not self._conversation.take_back():
            raise swink.UsageError("nothing has been asked yet", title="Nothing to take back")
        self._conversation.context.messages.pop()
        say(f"taken back; {self._count()} left")

    def _help(self, _: str) -> None:
        rows = [
            (f"{name} {command.words}".strip(), command.help) for name, command in _COMMANDS.items()
        ]
        for line in table(rows):
            say(line)
        say('A line that ends with \\ goes on; so does all between lines of """.')

    def _quit(self, _: str) -> None:
        self._leaving = True

    def _count(self) -> str:
        number = len(self._conversation.context.messages)
        return f"{number} message{'' if number == 1 else 's'}"


class _Command(NamedTuple):
    run: Callable[[Chat, str], None]
    words: str
    help: str


_COMMANDS = {
    "/model": _Command(Chat._model, "[NAME …]", "show or change who answers, from now on"),
    "/system": _Command(Chat._system, "[TEXT]", "show or change the system prompt; - for none"),
    "/image": _Command(Chat._image, "PATH", "attach an image to your next message"),
    "/attach": _Command(Chat._attach, "PATH", "attach a document, image or sound"),
    "/retry": _Command(Chat._retry, "", "ask again, dropping the last answer"),
    "/undo": _Command(Chat._undo, "", "take your last message back, with its answer"),
    "/save": _Command(Chat._save, "[-f] FILE", "write the conversation to a file"),
    "/load": _Command(Chat._load, "FILE", "go on with a conversation from a file"),
    "/help": _Command(Chat._help, "", "list these commands"),
    "/quit": _Command(Chat._quit, "", "leave"),
}


def _path(text: str) -> str:
    """Take off the quotes that people put around a path with spaces."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    if not text:
        raise swink.UsageError("no file was named", resolution="Write its path after the command.")
    return text


def _complete(line: str) -> Iterable[str]:
    """Offers commands, and models behind /model."""
    word, space, rest = line.partition(" ")
    if space:
        return model_names(rest.split(" ")[-1]) if word == "/model" else []
    if not word.startswith("/"):
        return []
    return [name + " " * bool(c.words) for name, c in _COMMANDS.items() if name.startswith(word)]
