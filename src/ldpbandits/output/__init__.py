"""What several parts write in one way: files, pages, figures and a progress bar. It knows nothing of those parts.

`files` and `page` need nothing but Python; `progress` and `style` need the extra `lab`.
"""
