"""The command ``turnback``: a text and JSON face over ``turnback.workspace``, for people and for harnesses in other languages.

It decides nothing about files: every verb is one call of the library, and what a person reads is made of exactly the JSON that a program gets.
"""
