"""`python -m lamina` is the command line."""

from lamina.cli.main import main

if __name__ == "__main__":
    main()
