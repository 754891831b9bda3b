"""The error of a vocabulary that needs a package which is not installed."""


class MissingPackage(ValueError):
    """Says what to install.

    Args:
        package (str): what cannot be imported.
        requirement (str): what to give to pip install.
    """

    def __init__(self, package: str, requirement: str):
        super().__init__(
            f"this vocabulary needs the package {package}; install it with: "
            f"pip install '{requirement}'"
        )
