package io.lancelet.spark.read;

import java.util.List;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What Spark's pages show of a scan, beside what they show of all. */
public final class Metrics {
  private Metrics() {}

  static List<CustomMetric> all() {
    return List.of(new Batches(), new Values());
  }

  static List<CustomTaskMetric> values(long batches, long bytes) {
    return List.of(new Value(new Batches().name(), batches), new Value(new Values().name(), bytes));
  }

  /** Spark makes it anew, by its class. */
  public static final class Batches extends CustomSumMetric {
    @Override
    public String name() {
      return "lanceBatches";
    }

    @Override
    public String description() {
      return "number of Lance batches";
    }
  }

  /** Spark makes it anew, by its class. */
  public static final class Values extends CustomSumMetric {
    @Override
    public String name() {
      return "lanceBytes";
    }

    @Override
    public String description() {
      return "bytes of values read from Lance";
    }
  }

  private record Value(String name, long value) implements CustomTaskMetric {}
}
