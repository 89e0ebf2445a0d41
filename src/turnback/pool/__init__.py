"""Bytes that no git tree can hold: exact contents, ignore rules, pre-images. Content-addressed files of the state folder."""
