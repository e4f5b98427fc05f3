"""The web app: a live model and saved results in the browser. It computes nothing itself."""

from lamina.web.app import create_app
from lamina.web.state import ServerSettings

__all__ = ["ServerSettings", "create_app"]
