"""Output that several packages share: files, pages, tables, numbers, figures, progress bars. It imports none of them.

`files`, `page`, `columns` and `numbers` need nothing but Python, `frames` needs pandas, `progress` and `style`
need the extra `lab`.
"""
