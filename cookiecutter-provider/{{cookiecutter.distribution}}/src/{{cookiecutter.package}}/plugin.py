{% include ("streaming" if cookiecutter.kind in ["sse", "ndjson"] else cookiecutter.kind) ~ ".py" -%}
