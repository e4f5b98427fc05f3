"""What all endpoints share: how errors look in the API's description, and tables as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel

if TYPE_CHECKING:
    import pandas


class Problem(BaseModel):
    """Why there is no answer, in a sentence for people."""

    error: str


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "What was asked cannot be done; the message says why."},
    401: {"model": Problem, "description": "The server's token is missing."},
    403: {"model": Problem, "description": "Not from a page of this server."},
    404: {"model": Problem, "description": "No such model, result or computation."},
    413: {"model": Problem, "description": "Too much text."},
    422: {"model": Problem, "description": "The request does not fit the API."},
    429: {"model": Problem, "description": "Too many requests or computations at once."},
}
"""For `responses` of a router."""


def _whole(text: str) -> str:
    """Half a character (a lone surrogate, which JSON can spell) is no text: it can be neither read nor sent back."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("half a character stands in it, a surrogate without its other half")
    return text


Typed = Annotated[str, AfterValidator(_whole)]
"""Any string that a request brings."""


def rows_of(table: pandas.DataFrame) -> list[dict[str, Any]]:
    """The table's rows as JSON has them: what is no number is null.

    Example:
        >>> import pandas as pd
        >>> rows_of(pd.DataFrame({"layer": [0, 1], "value": [0.5, float("nan")]}))
        [{'layer': 0, 'value': 0.5}, {'layer': 1, 'value': None}]
    """
    return json.loads(table.to_json(orient="records", double_precision=6) or "[]")
