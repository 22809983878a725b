"""What pyproject.toml cannot say: the readme of an index page, and an sdist laid out like a checkout."""

import re
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
LINKS = ("agent", "dialects", "passes", "runtime")
"""Folders of `mucc` that the root has links to, so that the tree shows them at the top."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]*)\)")


def index_readme(text: str, source: str | None) -> str:
    """Make the readme for a page without the files beside it.

    Links to files of the project lead to `source`, the address of its files, or without one become their text
    with the file's name, and images their description.
    """

    def there(link: re.Match[str]) -> str:
        image, text, path = link.groups()
        if source:
            return f"{image}[{text}]({source.rstrip('/')}/{path})"
        named = image or path.rstrip("/") in text.replace("`", "").rstrip("/")
        return text if named else f"{text} (`{path}`)"

    return _LINK.sub(there, text)


class CheckoutSdist(sdist):
    """An sdist whose root has the links of a checkout."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Lay out the files, and the links."""
        super().make_release_tree(base_dir, files)
        for name in LINKS:
            Path(base_dir, name).symlink_to(Path("mucc", name))


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    setup(
        long_description=index_readme(readme, project.get("urls", {}).get("Source")),
        long_description_content_type="text/markdown",
        cmdclass={"sdist": CheckoutSdist},
    )
