"""KaTeX for the site: its npm package in one version, checked against its sha512, kept in the cache.

The files go into the site, so that a reader's browser asks the network for nothing; they are neither in the repository
nor in the wheel.
"""

import base64
import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from seqloom.data.cache import folder, write

VERSION = "0.19.1"
INTEGRITY = "jG8uKntjSEcm2EpQOh0XturpPuuC9r3Sq5HLHdsFdWZT27E672SF19QEi+of0/YeOy15lDgRhKvr5614uRrEfA=="
"""sha512 of the package, in base64, as npm and its lock files write it"""
WAIT = 120
"""seconds that a download may take"""
SCRIPT, STYLE, LICENCE = "katex.min.js", "katex.min.css", "LICENSE"


def files() -> dict[str, bytes]:
    """Script, style, fonts (woff2) and licence by their paths; an OSError says why there are none."""
    kept = folder() / "katex" / f"katex-{VERSION}.tgz"
    if not kept.is_file() or not is_whole(kept.read_bytes()):
        write(kept, packed())
    return unpacked(kept.read_bytes())


def packed() -> bytes:
    """The package from npm's registry; an OSError says why it is not to be had."""
    npm = shutil.which("npm")
    if npm is None:
        raise OSError("npm is not installed")
    with tempfile.TemporaryDirectory() as out:
        command = [npm, "pack", f"katex@{VERSION}", "--pack-destination", out]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=WAIT, cwd=out)
        except subprocess.TimeoutExpired:
            raise OSError(f"npm gave no answer in {WAIT} s") from None
        except subprocess.CalledProcessError as error:
            reason = (error.stderr.strip().splitlines() or ["no reason given"])[0]
            raise OSError(f"npm: {reason.removeprefix('npm error ')}") from None
        content = Path(out, f"katex-{VERSION}.tgz").read_bytes()
    if not is_whole(content):
        raise OSError(f"the package katex@{VERSION} has another sha512 than the one that is pinned")
    return content


def is_whole(content: bytes) -> bool:
    """Whether a package is the one that is pinned."""
    return base64.b64encode(hashlib.sha512(content).digest()).decode() == INTEGRITY


def unpacked(content: bytes) -> dict[str, bytes]:
    """What the site shows of a package."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            name = member.name.removeprefix("package/").removeprefix("dist/")
            is_font = name.startswith("fonts/") and name.endswith(".woff2")
            if is_font or name in (SCRIPT, STYLE, LICENCE):
                file = archive.extractfile(member)
                assert file
                found[name] = file.read()
    return found
