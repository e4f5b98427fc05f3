"""What all endpoints share: errors in the API's description, text fields, tables as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel

if TYPE_CHECKING:
    import pandas


class ApiError(BaseModel):
    """An error, in one readable sentence."""

    error: str


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ApiError, "description": "The request cannot be answered; the message says why."},
    401: {"model": ApiError, "description": "The server's token is missing."},
    403: {"model": ApiError, "description": "Not from a page of this server."},
    404: {"model": ApiError, "description": "No such model, result or computation."},
    409: {"model": ApiError, "description": "A model of a result folder that has to be confirmed first."},
    413: {"model": ApiError, "description": "Too much text."},
    422: {"model": ApiError, "description": "The request does not fit the API."},
    429: {"model": ApiError, "description": "Too many requests or computations at once."},
    503: {"model": ApiError, "description": "The server cannot do it now: a download, its disk, its store."},
    504: {"model": ApiError, "description": "The model took longer than a request may take."},
}
"""For `responses` of a router."""


def whole(text: str) -> str:
    """The text, unless it contains an unpaired surrogate, which JSON can spell but no text can hold."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("it contains an unpaired surrogate")
    return text


Typed = Annotated[str, AfterValidator(whole)]
"""A text field of a request."""


def rows_of(table: pandas.DataFrame) -> list[dict[str, Any]]:
    """The table's rows as JSON; NaN becomes null.

    Example:
        >>> import pandas as pd
        >>> rows_of(pd.DataFrame({"layer": [0, 1], "value": [0.5, float("nan")]}))
        [{'layer': 0, 'value': 0.5}, {'layer': 1, 'value': None}]
    """
    return json.loads(table.to_json(orient="records", double_precision=6) or "[]")
