package io.lancelet.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Ask;
import io.lancelet.spark.python.Details;
import io.lancelet.spark.python.Python;
import io.lancelet.spark.python.Refusal;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;

/** Questions about one catalog, or about one thing in it; what Python refuses becomes the error that Spark has for it. */
public final class Asking {
  private final String catalog;
  private final Map<String, String> settings;
  private final String[] namespace;
  private final String name;

  private Asking(String catalog, Map<String, String> settings, String[] namespace, String name) {
    this.catalog = catalog;
    this.settings = settings;
    this.namespace = namespace;
    this.name = name;
  }

  static Asking about(String catalog, Map<String, String> settings) {
    return new Asking(catalog, settings, new String[0], null);
  }

  Asking at(String[] namespace) {
    return new Asking(catalog, settings, namespace, null);
  }

  Asking of(Identifier table) {
    return new Asking(catalog, settings, table.namespace(), table.name());
  }

  /** The table, as Spark's errors name it. */
  Identifier identifier() {
    return Identifier.of(full(namespace), name);
  }

  public JsonNode ask(Ask question, Map<String, ?> details) {
    return asked(question, details, Python::ask);
  }

  /** For work that may need Spark jobs. */
  JsonNode askWithJobs(Ask question, Map<String, ?> details) {
    return asked(question, details, Python::askWithJobs);
  }

  private JsonNode asked(Ask question, Map<String, ?> details, BiFunction<Ask, Map<String, ?>, JsonNode> way) {
    Map<String, Object> all = new HashMap<>(details);
    all.put(Details.CATALOG_NAME, catalog);
    all.put(Details.CATALOG, settings);
    all.put(Details.NAMESPACE, namespace);
    all.put(Details.NAME, name);
    all.put(Details.CASE_SENSITIVE, SQLConf.get().caseSensitiveAnalysis());
    try {
      return way.apply(question, all);
    } catch (Refusal refusal) {
      Asking about = question == Ask.RENAME_TABLE && refusal.kind() != Refusal.Kind.TABLE_NOT_FOUND ? target(details) : this;
      Throwable error = about.inSparksWords(question, refusal);
      error.addSuppressed(refusal);
      throw Asking.<RuntimeException>thrown(error);
    }
  }

  /** What a table is to be called; the catalog may come first. */
  private Asking target(Map<String, ?> details) {
    String[] names = (String[]) details.get(Details.TARGET_NAMESPACE);
    boolean hasCatalog = names.length > 0 && names[0].equals(catalog);
    String[] inside = names.length == 0 ? namespace : hasCatalog ? Arrays.copyOfRange(names, 1, names.length) : names;
    return new Asking(catalog, settings, inside, (String) details.get(Details.TARGET_NAME));
  }

  private Throwable inSparksWords(Ask question, Refusal refusal) {
    return switch (refusal.kind()) {
      case NAMESPACE_NOT_FOUND -> new NoSuchNamespaceException(full(namespace));
      case NAMESPACE_EXISTS -> new NamespaceAlreadyExistsException(full(namespace));
      case NAMESPACE_NOT_EMPTY -> new NonEmptyNamespaceException(full(namespace), refusal.getMessage(), Option.empty());
      case TABLE_NOT_FOUND -> name == null ? refusal.plain() : new NoSuchTableException(missing(refusal));
      case TABLE_EXISTS -> name == null ? refusal.plain() : new TableAlreadyExistsException(identifier());
      default -> question == Ask.ALTER_TABLE ? unsupportedChange(refusal) : refusal.plain();
    };
  }

  /** The table that is not there. */
  private Identifier missing(Refusal refusal) {
    return refusal.names().map(all -> Identifier.of(Arrays.copyOf(all, all.length - 1), all[all.length - 1])).orElse(identifier());
  }

  /** Spark would put this error around any other one, and then show all its stack. */
  private static Throwable unsupportedChange(Refusal refusal) {
    if (refusal.kind() == Refusal.Kind.FAILED) {
      return refusal.plain();
    }
    Map<String, String> sentence = Map.of("message", refusal.getMessage());
    return new AnalysisException("UNSUPPORTED_TABLE_CHANGE", PythonUtils.toScalaMap(sentence));
  }

  private String[] full(String[] names) {
    String[] all = Arrays.copyOf(new String[] {catalog}, names.length + 1);
    System.arraycopy(names, 0, all, 1, names.length);
    return all;
  }

  /** Spark's errors are checked exceptions, which the methods of its catalogs do not all declare. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> E thrown(Throwable error) throws E {
    throw (E) error;
  }
}
