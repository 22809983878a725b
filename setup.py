"""What pyproject.toml cannot say: the readme of an index page, and an sdist laid out like a checkout."""

import os
import re
import shutil
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
LINKS = ("agent", "dialects", "passes", "runtime")
"""Folders of the root that are imported through links in `mucc`."""

_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:|#)([^)\s]*)\)")


def index_readme(text: str, source: str | None) -> str:
    """A readme for a page that has no files beside it.

    Links to files of the project lead to `source`, the address of its files, or without one become their text
    with the file's name.
    """

    def there(link: re.Match[str]) -> str:
        text, path = link.groups()
        if source:
            return f"[{text}]({source.rstrip('/')}/{path})"
        named = path.rstrip("/") in text.replace("`", "").rstrip("/")
        return text if named else f"{text} (`{path}`)"

    return _LINK.sub(there, text)


class CheckoutSdist(sdist):
    """An sdist in which `mucc/dialects` and so on are links, as they are in a checkout."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Lay out the files, each once."""
        copies = tuple(os.path.join("mucc", name, "") for name in LINKS)
        super().make_release_tree(base_dir, [file for file in files if not file.startswith(copies)])
        for name in LINKS:
            link = Path(base_dir, "mucc", name)
            shutil.rmtree(link, ignore_errors=True)
            link.symlink_to(Path("..", name))


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    setup(
        long_description=index_readme(readme, project.get("urls", {}).get("Source")),
        long_description_content_type="text/markdown",
        cmdclass={"sdist": CheckoutSdist},
    )
