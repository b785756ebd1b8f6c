"""What the tests share."""

pytest_plugins = ["pytester"]
