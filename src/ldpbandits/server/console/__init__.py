"""The console: the experimenter's pages, made by the server itself. They read what the API reads, and change no more.

`application.py` takes requests to pages; `sessions.py` knows who is signed in, `visits.py` whom to believe. `pages.py`,
`create.py` and `actions.py` are the pages, `words.py` and `drawing.py` what they say and show, `live.py` how they
follow what happens. Templates and static files are beside them; nothing comes from elsewhere.
"""
