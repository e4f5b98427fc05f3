"""Where weights lie, what their files may contain, and what is read from them."""
