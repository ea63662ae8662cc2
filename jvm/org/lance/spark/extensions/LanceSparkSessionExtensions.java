package org.lance.spark.extensions;

import io.lancelet.spark.sql.LanceExtensions;

/** The extension under the name that it has in configurations of another connector. */
public final class LanceSparkSessionExtensions extends LanceExtensions {}
