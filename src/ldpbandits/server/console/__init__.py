"""The console: the experimenter's pages, rendered by the server. They use the operations of the API, and no others.

`application.py` routes requests to pages; `sessions.py` has the sessions, `visits.py` authenticates requests.
`pages.py`, `create.py` and `actions.py` are the pages, `words.py` and `drawing.py` their sentences and charts,
`live.py` their updates. Templates and static files are beside them; pages load nothing from other sites.
"""
