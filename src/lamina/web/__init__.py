"""The web app: a model looked into in the browser, with the saved results beside it. No analysis is written here."""

from lamina.web.app import create_app
from lamina.web.settings import Settings

__all__ = ["Settings", "create_app"]
