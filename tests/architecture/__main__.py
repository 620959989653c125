"""Rewrites the generated parts of the architecture page."""

from tests.architecture.page import figures, picture, walk_text, write
from tests.architecture.walks import all_walks

write("picture", picture())
write("figures", figures())
write("walks", "\n\n".join(map(walk_text, all_walks())))
