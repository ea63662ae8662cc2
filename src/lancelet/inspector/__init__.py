"""A page in the browser that shows what a table is made of: ``lancelet inspect TABLE``.

::

    browser ── GET /<token>/ ──────────────> server.py ── static/       one page, no outside resources
            ── GET /<token>/facts/<name> ──>           ── facts.py      JSON, from the room ``inspect``

It only reads. It listens on the loopback address, and answers only under a random token in its address.
"""
