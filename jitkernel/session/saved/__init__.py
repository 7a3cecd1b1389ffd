"""A session in a file: what is written, how it is proved, how a session comes back from it.

`tables` is the file, `rows` what its rows say, `writing` and `autosave` fill it, `reading` and
`restoring` bring the session back.
"""
