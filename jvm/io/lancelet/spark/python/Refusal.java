package io.lancelet.spark.python;

import java.util.Locale;
import java.util.Optional;
import org.apache.spark.sql.execution.QueryExecutionException;

/** Python's answer that something cannot be done, in a sentence. */
public final class Refusal extends RuntimeException {
  /** What kind of mistake it is; {@code lancelet.spark.sql.protocol} has the same names. */
  public enum Kind {
    NAMESPACE_NOT_FOUND,
    NAMESPACE_EXISTS,
    NAMESPACE_NOT_EMPTY,
    TABLE_NOT_FOUND,
    TABLE_EXISTS,
    INVALID,
    UNSUPPORTED,
    FAILED;

    static Kind of(String written) {
      return valueOf(written.toUpperCase(Locale.ROOT));
    }
  }

  private final Kind kind;
  private final String error;
  private final String[] names;

  Refusal(Kind kind, String error, String sentence, String[] names) {
    super(sentence, null, false, false);
    this.kind = kind;
    this.error = error;
    this.names = names;
  }

  /** What is not there, if that is not what was asked about. */
  public Optional<String[]> names() {
    return Optional.ofNullable(names);
  }

  public Kind kind() {
    return kind;
  }

  /** The error's name in Python; nothing for a mistake of ours. */
  public Optional<String> error() {
    return Optional.ofNullable(error);
  }

  /** As an error that has no class of its own in Spark: what the user got wrong, what there is not, what went wrong. */
  public Exception plain() {
    return switch (kind) {
      case UNSUPPORTED -> new UnsupportedOperationException(getMessage());
      case FAILED -> new QueryExecutionException(getMessage(), null);
      default -> new IllegalArgumentException(getMessage());
    };
  }
}
