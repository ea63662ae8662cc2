"""An acceptance corpus for readers of Lance: small tables, and what is in them as JSON.

``make corpus`` writes it to ``build/corpus``::

    index.json               name, what it shows and the path of every case
    <case>/table.lance       a table
    <case>/expected.json     its versions: schema, rows, tags; or why a reader must refuse it

Values in JSON are exact: see :mod:`corpus.values`.
"""
