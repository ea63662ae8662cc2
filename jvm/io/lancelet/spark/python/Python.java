package io.lancelet.spark.python;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;

/**
 * Python, which knows all about Lance: one process for as long as this Java runs, started when it is first asked and again
 * when it ended.
 */
public final class Python {
  /** Reads and writes the texts that go between the two; what jobs carry may be long. */
  public static final ObjectMapper JSON =
      new ObjectMapper(
          JsonFactory.builder()
              .streamReadConstraints(StreamReadConstraints.builder().maxStringLength(Integer.MAX_VALUE).build())
              .build());

  private static final List<String> SERVER =
      List.of("-m", "lancelet.spark.sql.server", Ask.PLAN_SOURCE.written(), Ask.PLAN_SINK.written());

  /** What is asked, too, where tables have names. */
  private static final List<Ask> OF_NAMES = List.of(Ask.LOAD_TABLE, Ask.CREATE_TABLE, Ask.CALL_PROCEDURE, Ask.LIST_NAMESPACES);

  private static final Pattern NAMES_TABLES = Pattern.compile("spark\\.sql\\.catalog\\.[^.]+\\.(root|impl)");
  private static Child child;

  private Python() {}

  /** Lets the process start if a catalog has tables with names: somebody will ask soon, and it takes seconds to begin. */
  public static void startEarly() {
    if (namesTables()) {
      try {
        current();
      } catch (UncheckedIOException missing) {
        // Who asks is told.
        return;
      }
    }
  }

  private static boolean namesTables() {
    return Arrays.stream(SparkEnv.get().conf().getAll())
        .anyMatch(setting -> NAMES_TABLES.matcher(setting._1()).matches());
  }

  /**
   * Whether all sessions share this process. A session of Spark Connect that brought these classes along has them to itself,
   * and would leave a process behind when it ends.
   */
  public static boolean isShared() {
    ClassLoader loader = SparkSession.active().sharedState().jarClassLoader();
    while (loader != null && loader != Python.class.getClassLoader()) {
      loader = loader.getParent();
    }
    return loader != null;
  }

  /**
   * Asks, and waits for the answer.
   *
   * @param details what the question is about, by the names in {@link Details}
   * @throws Refusal when Python says no
   */
  public static JsonNode ask(Ask question, Map<String, ?> details) {
    return asked(question, details).answer();
  }

  /** An answer, and who gave it. */
  private record Told(JsonNode answer, Child by) {}

  private static Told asked(Ask question, Map<String, ?> details) {
    Child first = current();
    try {
      return new Told(first.ask(question, details), first);
    } catch (Child.Gone gone) {
      if (question.changes) {
        throw unknown(question, gone);
      }
    }
    Child second = current();
    try {
      return new Told(second.ask(question, details), second);
    } catch (Child.Gone gone) {
      throw new IllegalStateException(
          "Spark asks Python about Lance tables, but the process ended: "
              + gone.getMessage()
              + ". Its Python needs lancelet (pip install 'lancelet[spark,namespace]'); PYSPARK_PYTHON says which one it is");
    }
  }

  private static IllegalStateException unknown(Ask question, Child.Gone gone) {
    return new IllegalStateException(
        "the Python process that makes changes for Spark ended while it answered '"
            + question.written()
            + "'; nobody knows whether the change was made: look at the table before you try again. "
            + gone.getMessage());
  }

  /**
   * As {@link #ask}, for work that may need Spark jobs: an answer that is a job is run, and its results are handed over, until
   * there is one that is none. All that is between the one process that began and this Java: no other knows its jobs.
   */
  public static JsonNode askWithJobs(Ask question, Map<String, ?> details) {
    Told first = asked(question, details);
    JsonNode told = first.answer();
    while (told.has(Details.JOB)) {
      long job = told.get(Details.JOB).asLong();
      List<String> results = results(first.by(), job, told);
      try {
        told = first.by().ask(Ask.CONTINUE_PROCEDURE, Map.of(Details.JOB, job, Details.RESULTS, results));
      } catch (Child.Gone gone) {
        throw unknown(Ask.CONTINUE_PROCEDURE, gone);
      }
    }
    return told;
  }

  private static List<String> results(Child child, long job, JsonNode told) {
    List<String> results = null;
    try {
      results = Job.run(told);
      return results;
    } finally {
      if (results == null) {
        abandon(child, job);
      }
    }
  }

  /** Lets Python remove what was written so far; it refuses then to go on, and why the job failed is known here. */
  private static void abandon(Child child, long job) {
    try {
      child.ask(Ask.CONTINUE_PROCEDURE, Child.failed(job));
    } catch (Child.Gone | Refusal | IllegalStateException ended) {
      return;
    }
  }

  private static synchronized Child current() {
    if (child == null || !child.isAlive()) {
      List<String> arguments = new ArrayList<>(SERVER);
      if (namesTables()) {
        OF_NAMES.forEach(question -> arguments.add(question.written()));
      }
      try {
        child = Child.start(interpreter(), arguments, path());
      } catch (IOException error) {
        throw new UncheckedIOException(
            "Spark asks Python about Lance tables, but " + interpreter() + " cannot be started; set PYSPARK_PYTHON", error);
      }
    }
    return child;
  }

  /** The Python that Spark plans with. */
  private static String interpreter() {
    for (String variable : new String[] {"PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"}) {
      String set = System.getenv(variable);
      if (set != null && !set.isEmpty() && !set.contains("jupyter") && !set.contains("ipython")) {
        return set;
      }
    }
    SparkConf conf = SparkEnv.get().conf();
    for (String setting : new String[] {"spark.pyspark.driver.python", "spark.pyspark.python"}) {
      Option<String> set = conf.getOption(setting);
      if (set.isDefined()) {
        return set.get();
      }
    }
    return "python3";
  }

  private static String path() {
    String given = System.getenv("PYTHONPATH");
    String own = PythonUtils.sparkPythonPath();
    return given == null || given.isEmpty() ? own : given + java.io.File.pathSeparator + own;
  }
}
