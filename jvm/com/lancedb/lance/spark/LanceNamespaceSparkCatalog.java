package com.lancedb.lance.spark;

import io.lancelet.spark.catalog.LanceCatalog;

/** The catalog under the name that it has in configurations of another connector. */
public final class LanceNamespaceSparkCatalog extends LanceCatalog {}
