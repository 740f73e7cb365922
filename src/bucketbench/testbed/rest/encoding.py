"""How listings write names: as XML text, or percent-encoded where the client asks for it."""

from collections.abc import Callable
from urllib.parse import quote

from bucketbench.testbed.rest.call import Call
from bucketbench.testbed.rest.errors import RestError
from bucketbench.testbed.serving.xml import text

__all__ = ["name_encoder"]


def name_encoder(call: Call) -> Callable[[str], str]:
    """Returns how names are written in the answer: percent-encoded where `encoding-type=url` asks for it, else as XML
    text; raises InvalidArgument for another encoding."""
    kind = call.query.get("encoding-type")
    if kind is None:
        return text
    if kind != "url":
        raise RestError(
            "InvalidArgument",
            f"encoding-type is {kind!r}; only url is known.",
            fields={"ArgumentName": "encoding-type"},
        )
    return lambda name: quote(name, safe="/")
