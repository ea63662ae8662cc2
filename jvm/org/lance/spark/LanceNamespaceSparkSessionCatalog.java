package org.lance.spark;

import io.lancelet.spark.catalog.LanceSessionCatalog;

/** The session catalog under the name that it has in configurations of another connector. */
public final class LanceNamespaceSparkSessionCatalog extends LanceSessionCatalog {}
