"""`tool.setuptools.cmdclass` of pyproject.toml: the sdist holds what one needs to test and change k3scope."""

from pathlib import Path

from setuptools.command.sdist import sdist

# beside the packages, their data, pyproject.toml, README and LICENSE, which setuptools takes by itself
FILES = ("Makefile", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff")
FOLDERS = ("tests", "assets", "docs")
LEFT_OUT = {"__pycache__", "node_modules"}


class SdistWithTests(sdist):
    """A list here instead of a MANIFEST.in, which would be one more file at the top."""

    def make_distribution(self) -> None:
        paths = [Path(name) for name in FILES]
        paths += [path for folder in FOLDERS for path in sorted(Path(folder).rglob("*"))]
        self.filelist.extend(str(p) for p in paths if p.is_file() and LEFT_OUT.isdisjoint(p.parts))
        super().make_distribution()
