{% if cookiecutter.role == "provider" -%}
"""The conformance kit on {{ cookiecutter.title }}."""

from swink_core.testing.conformance import ProviderConformance


class Test{{ cookiecutter.class_name }}(ProviderConformance):
    provider = "{{ cookiecutter.name }}"
    model = "{{ cookiecutter.name }}/{{ cookiecutter.name }}-large"
{% elif cookiecutter.kind == "observer" -%}
"""The observers' kit on {{ cookiecutter.title }}, and what is its own."""

from swink_core.testing.observers import ObserverConformance

from {{ cookiecutter.package }} import {{ cookiecutter.class_name }}


class Test{{ cookiecutter.class_name }}(ObserverConformance):
    observer = {{ cookiecutter.class_name }}
{% else -%}
"""What every provider is sent."""

from {{ cookiecutter.package }} import {{ cookiecutter.class_name }}
from {{ cookiecutter.package }}.plugin import SECRET, _hidden


def test_the_word_is_hidden_wherever_it_stands() -> None:
    payload = {"messages": [{"content": f"say {SECRET}"}], "n": 1}
    assert _hidden(payload) == {"messages": [{"content": "say …"}], "n": 1}


def test_the_plugin_fits_the_hooks() -> None:
    import swink_core as swink

    swink.Host([{{ cookiecutter.class_name }}()], entry_points=[])
{% endif -%}
