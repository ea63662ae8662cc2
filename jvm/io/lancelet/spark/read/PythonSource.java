package io.lancelet.spark.read;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.JobArtifactSet;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.python.PythonUtils$;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import scala.Option;

/**
 * The data source as Python has it. Spark would look for its class, in a process that imports all packages named {@code pyspark_*};
 * here it is known.
 */
final class PythonSource extends PythonDataSourceV2 {
  /** The class, by its name, as pickle writes it. */
  private static final byte[] CLASS =
      "clancelet.spark.source\nLanceDataSource\n.".getBytes(StandardCharsets.US_ASCII);

  /** A folder for the path of processes that plan, which has them import at once what they need. */
  private static final String STARTUP = "spark.lancelet.startup";

  private static SimplePythonFunction known;

  private UserDefinedPythonDataSource source;

  @Override
  public synchronized UserDefinedPythonDataSource source() {
    if (source == null) {
      Map<String, String> environment = new HashMap<>();
      Option<String> startup = SparkEnv.get().conf().getOption(STARTUP);
      if (startup.isDefined() && !startup.get().isEmpty()) {
        environment.put("PYTHONPATH", startup.get());
      }
      source = in(environment);
    }
    return source;
  }

  /** The same for tasks, in the environment that functions of users have, too: then they share their workers. */
  static UserDefinedPythonDataSource forTasks() {
    return in(new HashMap<>(Map.of("PYTHONHASHSEED", "0")));
  }

  /** What the session has brought along for tasks. */
  static Option<String> artifacts() {
    return JobArtifactSet.getCurrentJobArtifactState().map(state -> state.uuid());
  }

  /** The session whose log tells what tasks print, where it is kept. */
  static Option<String> logging() {
    SparkSession session = SparkSession.active();
    boolean isKept = session.sessionState().conf().pythonWorkerLoggingEnabled();
    return isKept ? Option.apply(session.sessionUUID()) : Option.empty();
  }

  /** Spark adds to the environment of a function, so that each has its own. */
  private static UserDefinedPythonDataSource in(Map<String, String> environment) {
    SimplePythonFunction python = python();
    return new UserDefinedPythonDataSource(
        new SimplePythonFunction(
            CLASS, environment, new ArrayList<>(), python.pythonExec(), python.pythonVer(), new ArrayList<>(), null));
  }

  /** Which Python it is: Spark runs it to learn its version. */
  private static synchronized SimplePythonFunction python() {
    if (known == null) {
      known = PythonUtils$.MODULE$.createPythonFunction(CLASS);
    }
    return known;
  }
}
