"""Output that several packages share: files, pages, tables, figures and a progress bar. It imports none of them.

`files`, `page` and `columns` need nothing but Python, `frames` needs pandas, `progress` and `style` need the extra
`lab`.
"""
