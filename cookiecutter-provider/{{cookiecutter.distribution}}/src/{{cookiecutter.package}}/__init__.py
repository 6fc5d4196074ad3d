"""{{ cookiecutter.title }} for swink."""

from {{ cookiecutter.package }}.plugin import {{ cookiecutter.class_name }}

__all__ = ["{{ cookiecutter.class_name }}"]
