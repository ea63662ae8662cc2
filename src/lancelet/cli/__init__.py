"""The command ``lancelet``: tables looked at, kept in order and moved, from a terminal.

::

    main       the commands put together; errors as sentences, exit codes
    places     which table, which version: arguments that commands share
    printing   facts and rows as tables for people, or as JSON
    look       ls show head count query history diff fragments files pages columns indices
    keep       verify repair compact cleanup index tag branch restore clone drop
    move       import export
    texts      values in CSV and JSON, with the types of a table
    with_spark import and export of much data
    page       inspect
    serving    serve
    machine    doctor
"""
