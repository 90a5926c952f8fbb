"""Planning: the cost of an epsilon, before an experiment starts.

A `Question` says what is to be found and by how many users; a `Case` is one epsilon of it. Trials are played as they
would be live, and the verdict is reached when a server's report would say so. A `Plan` is the answer.
"""
