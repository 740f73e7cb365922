"""Pages made of templates, with a policy by which a browser loads nothing and runs no script but ours."""

from __future__ import annotations

import base64
import hashlib
from importlib import metadata, resources
from typing import Any, Final

from bucketbench.errors import UsageError

__all__ = ["fill_template"]

_PAGE: Final = "page"
_STYLE: Final = "report.css"


def fill_template(name: str, *, scripts: tuple[str, ...], **values: Any) -> str:
    """A page. All text that is put in is escaped, and by its policy it runs no script and no style but its own.

    Args:
        name: of the template's file.
        scripts: the files of the page's script, which are joined.
        values: what the template names, beside ``style``, ``script``, ``policy`` and ``version``.

    Raises:
        UsageError: what fills pages is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise UsageError(
            "an HTML report needs packages that are not installed: pip install 'torchbucket[report]'"
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_own),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _own(_STYLE), "".join(_own(file) for file in scripts)
    page: str = environment.get_template(name).render(
        policy=_policy(style, script),
        version=metadata.version("torchbucket"),
        style=style,
        script=script,
        **values,
    )
    return page


def _own(name: str) -> str:
    """The text of a file of the page's."""
    return (resources.files(__package__) / _PAGE / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, sent or framed; of scripts and styles only those with these digests."""
    return "; ".join((
        "default-src 'none'",
        f"style-src '{_digest(style)}'",
        f"script-src '{_digest(script)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ))  # fmt: skip


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
