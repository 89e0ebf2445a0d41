"""The Python side of the C core: what touches every file of a tree runs there, without the GIL, one call a tree.

``lib`` is the only importer of the compiled module; it turns error codes into ``CoreError``. The other modules give its flat
arrays a face. Nothing here decides anything: options come from the caller.
"""
