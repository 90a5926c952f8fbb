"""What several parts write in one way: files, pages, tables, figures and a progress bar. It knows none of those parts.

`files`, `page` and `columns` need nothing but Python, `frames` needs pandas, `progress` and `style` need the extra
`lab`.
"""
