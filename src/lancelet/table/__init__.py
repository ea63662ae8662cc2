"""Tables: manifests, versions, fragments, deletions, row ids, tags and branches."""
