"""Papers about an experiment that fill themselves in from its settings: for data protection officers and visitors.

`kit` has the documents, `facts` what they say of an experiment. The command line writes them, the console offers them.
"""
