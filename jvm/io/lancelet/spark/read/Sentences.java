package io.lancelet.spark.read;

import io.lancelet.spark.python.Refusal;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.execution.QueryExecutionException;

/**
 * What Python refuses, in its sentence. Where one of Spark's processes says it, Spark tells it as the failure of a Python data
 * source or function, with the lines in which it was found out.
 */
public final class Sentences {
  private static final Pattern SENTENCE =
      Pattern.compile("\\nlancelet\\.errors\\.(\\w+): (.*?)(?: SQLSTATE: \\w+)?(?:; line \\d+ pos \\d+)?$", Pattern.DOTALL);

  /** A Python that lacks one of these has no lancelet. */
  private static final Pattern MISSING = Pattern.compile("ModuleNotFoundError: No module named '(lancelet|numpy|pyarrow)[.']");

  /** What is not a mistake of the user's; its name is told, too. */
  private static final Set<String> FAILURES =
      Set.of(
          "CommitConflict", "RetryableCommitConflict", "CommitOutcomeUnknown", "CorruptFile", "MissingFile", "StorageError",
          "UncertainPut");

  private Sentences() {}

  /** The answer, or the sentence as an error of its own. */
  public static <T> T told(Supplier<T> work) {
    try {
      return work.get();
    } catch (Refusal refused) {
      String sentence = refused.getMessage();
      throw Sentences.<RuntimeException>thrown(refused.error().map(name -> plain(name, sentence)).orElseGet(refused::plain));
    } catch (Exception error) {
      // Of Spark's errors, some are checked ones that nobody declares.
      String text = String.valueOf(error.getMessage()).stripTrailing();
      if (MISSING.matcher(text).find()) {
        // As Spark says it of sources that it looks for.
        Map<String, String> name = Map.of("provider", LanceProvider.NAME);
        throw Sentences.<RuntimeException>thrown(new AnalysisException("DATA_SOURCE_NOT_EXIST", PythonUtils.toScalaMap(name)));
      }
      Matcher found = SENTENCE.matcher(text);
      if (!found.find()) {
        throw error;
      }
      Throwable plain = plain(found.group(1), found.group(2).strip());
      plain.addSuppressed(error);
      throw Sentences.<RuntimeException>thrown(plain);
    }
  }

  private static Throwable plain(String name, String sentence) {
    if (name.equals("NotSupported")) {
      return new UnsupportedOperationException(sentence);
    }
    if (name.equals("TableNotFound")) {
      return new AnalysisException("PATH_NOT_FOUND", PythonUtils.toScalaMap(Map.of("path", sentence)));
    }
    return FAILURES.contains(name)
        ? new QueryExecutionException(name + ": " + sentence, null)
        : new IllegalArgumentException(sentence);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E thrown(Throwable error) throws E {
    throw (E) error;
  }
}
