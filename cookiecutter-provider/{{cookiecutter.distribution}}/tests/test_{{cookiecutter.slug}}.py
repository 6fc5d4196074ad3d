{% if cookiecutter.role == "provider" -%}
"""The conformance tests of {{ cookiecutter.title }}."""

from swink_testing.conformance import ProviderConformance


class Test{{ cookiecutter.class_name }}(ProviderConformance):
    provider = "{{ cookiecutter.name }}"
{% elif cookiecutter.kind == "observer" -%}
"""The conformance tests of observers on {{ cookiecutter.title }}, and its own tests."""

import swink_core as swink
from swink_testing.observers import ObserverConformance, new_call

from {{ cookiecutter.package }} import {{ cookiecutter.class_name }}


class Test{{ cookiecutter.class_name }}(ObserverConformance):
    observer = {{ cookiecutter.class_name }}


def test_outcomes_are_counted_by_provider() -> None:
    observer = {{ cookiecutter.class_name }}()
    call = new_call()
    for _ in range(2):
        observer.on_event(swink.Start(), call)
        observer.on_event(swink.Done(swink.StopReason.STOP), call)
    assert observer.outcomes == {"scripted: stop": 2}
{% else -%}
"""The conformance tests of wrappers on {{ cookiecutter.title }}, and its own tests."""

import swink_core as swink
from swink_testing.observers import PluginSubject, WrapperConformance

from {{ cookiecutter.package }} import {{ cookiecutter.class_name }}
from {{ cookiecutter.package }}.plugin import SECRET


class Test{{ cookiecutter.class_name }}(WrapperConformance):
    wrapper = {{ cookiecutter.class_name }}


def test_the_word_is_hidden_in_what_is_sent() -> None:
    hooks = PluginSubject({{ cookiecutter.class_name }}).binding().hook
    payload = hooks.convert_messages(
        model=swink.Model("scripted", "model"),
        context=swink.Context.of(f"say {SECRET}"),
        options=swink.StreamOptions(),
    )
    assert SECRET not in str(payload)
    assert "say …" in str(payload)
{% endif -%}
