"""``python -m turnback``."""

from turnback.cli.main import run

if __name__ == "__main__":
    run()
