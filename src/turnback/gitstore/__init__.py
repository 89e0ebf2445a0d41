"""Git repositories: the only package that imports pygit2, and the only one that starts ``git``.

Mechanism alone: what to capture, restore or move is decided above. Objects and refs go through libgit2; what libgit2 answers
differently from git (ignore rules, attributes, filters, the index as a whole) is asked of git itself, in one process for all paths.
"""
