package io.lancelet.spark.sql;

import static io.lancelet.spark.sql.Call.quote;

import io.lancelet.spark.sql.Words.Kind;
import io.lancelet.spark.sql.Words.Word;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.internal.VariableSubstitution;

/**
 * The statements that Spark does not have, about tables in our catalogs. Each is a call of a procedure that the catalog has
 * in its namespace {@code system}, and is handed to Spark as such; but for the last two, which Spark has in other words.
 *
 * <pre>
 *   OPTIMIZE t [WHERE condition] [WITH (option = value, ...)]
 *   VACUUM t [RETAIN n HOURS|DAYS] [DRY RUN] [WITH (...)]
 *   DESCRIBE|DESC HISTORY t [LIMIT n]              DESCRIBE|DESC DETAIL t
 *   RESTORE [TABLE] t TO VERSION AS OF v           RESTORE [TABLE] t TO TIMESTAMP AS OF expression
 *   SHOW INDEXES|INDEX|BRANCHES|BRANCH|TAGS|TAG FROM|IN t
 *   ALTER TABLE t CREATE INDEX [IF NOT EXISTS] i USING kind (column, ...) [WITH (...)]
 *   ALTER TABLE t DROP INDEX [IF EXISTS] i
 *   ALTER TABLE t OPTIMIZE INDEX [i] [WITH (...)]  ALTER TABLE t REFRESH INDEX i [WITH (...)]
 *   CREATE INDEX [IF NOT EXISTS] i ON [TABLE] t [USING kind] (column, ...) [OPTIONS (...)]
 *   DROP INDEX [IF EXISTS] i ON [TABLE] t
 *   ALTER TABLE t CREATE [OR REPLACE] BRANCH|TAG [IF NOT EXISTS] x [reference]
 *     reference: AS OF VERSION n, AS OF BRANCH b [VERSION n], AS OF TAG g, VERSION AS OF n
 *   ALTER TABLE t DROP BRANCH|TAG [IF EXISTS] x
 *   ALTER TABLE t ADD|UPDATE COLUMNS column, ... FROM view|(query)
 *   ALTER TABLE t SET UNENFORCED PRIMARY KEY (column, ...)
 *   CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t [SHALLOW|DEEP] CLONE s
 *     [VERSION AS OF v | TIMESTAMP AS OF expression] [LOCATION 'path']
 *   REPLACE t WHERE condition AS query
 *   EXPLAIN [EXTENDED|FORMATTED|COST|CODEGEN] statement
 * </pre>
 */
final class Statements extends Sentence {
  private static final Set<String> FIRST =
      Set.of("OPTIMIZE", "VACUUM", "DESCRIBE", "DESC", "RESTORE", "SHOW", "ALTER", "CREATE", "DROP", "REPLACE", "EXPLAIN");

  private static final Set<String> WAYS_TO_EXPLAIN = Set.of("EXTENDED", "FORMATTED", "COST", "CODEGEN");

  private final SparkSession session;

  private Statements(String text, List<Word> words, SparkSession session) {
    super(text, words);
    this.session = session;
  }

  /** What a statement is in Spark's words, a call most of all, if it is one of ours. */
  static Optional<String> inSparksWords(String text, SparkSession session) throws ParseException {
    Word first = Words.first(text);
    if (!FIRST.contains(first.keyword()) && !first.isMark('$')) {
      return Optional.empty();
    }
    String whole = text.contains("${") ? new VariableSubstitution().substitute(text) : text;
    List<Word> words = Words.of(whole);
    if (words.isEmpty() || !FIRST.contains(words.get(0).keyword())) {
      return Optional.empty();
    }
    if (words.get(0).is("EXPLAIN")) {
      int statement = words.size() > 1 && WAYS_TO_EXPLAIN.contains(words.get(1).keyword()) ? 2 : 1;
      int start = words.get(Math.min(statement, words.size() - 1)).start();
      return inSparksWords(whole.substring(start), session).map(found -> whole.substring(0, start) + found);
    }
    try {
      Statements statement = new Statements(whole, words, session);
      return Optional.of(words.get(0).is("REPLACE") ? statement.replaced() : statement.call());
    } catch (Other other) {
      return Optional.empty();
    }
  }

  private String call() throws Other, ParseException {
    Call call =
        switch (take().keyword()) {
          case "OPTIMIZE" -> optimize();
          case "VACUUM" -> vacuum();
          case "RESTORE" -> restore();
          case "SHOW" -> show();
          case "ALTER" -> alter();
          case "CREATE" -> create();
          case "DROP" -> dropIndexOn();
          default -> describe();
        };
    if (peek().kind() != Kind.END) {
      throw unexpected("the statement ends before it");
    }
    return call.written();
  }

  // Statements

  /** An INSERT in the place of the rows for which a condition is true. */
  private String replaced() throws Other, ParseException {
    take();
    if (peek().is("TABLE")) {
      throw new Other();
    }
    List<String> table = name();
    if (!taken("WHERE")) {
      throw new Other();
    }
    List<String> own = own(table);
    String condition = until(Set.of("AS"), "a condition is expected");
    expect("AS");
    String query = until(Set.of(), "a query is expected");
    return "INSERT INTO " + Call.written(own) + " REPLACE WHERE " + condition + " " + query;
  }

  private Call optimize() throws Other, ParseException {
    Call call = new Call("optimize", ownTable());
    if (taken("WHERE")) {
      call.with("where", quote(until(Set.of("WITH", "ZORDER"), "a condition is expected")));
    }
    if (peek().is("ZORDER")) {
      throw unexpected(
          "OPTIMIZE leaves rows in their order, and there is no ZORDER BY; INSERT OVERWRITE t SELECT * FROM t ORDER BY columns"
              + " puts them into another one");
    }
    return call.with("options", options("WITH"));
  }

  private Call vacuum() throws Other, ParseException {
    Call call = new Call("vacuum", ownTable());
    if (taken("RETAIN")) {
      String count = number();
      boolean days = taken("DAYS") || taken("DAY");
      if (!days && !taken("HOURS") && !taken("HOUR")) {
        throw unexpected("HOURS or DAYS is expected");
      }
      call.with("retain_hours", (days ? 24.0 : 1.0) * Long.parseLong(count) + "D");
    }
    if (taken("DRY")) {
      expect("RUN");
      call.with("dry_run", "true");
    }
    return call.with("options", options("WITH"));
  }

  private Call describe() throws Other, ParseException {
    boolean history = peek().is("HISTORY");
    if (!history && !peek().is("DETAIL")) {
      throw new Other();
    }
    take();
    Call call = new Call(history ? "history" : "detail", ownTable());
    return history && taken("LIMIT") ? call.with("limit", number()) : call;
  }

  private Call restore() throws Other, ParseException {
    taken("TABLE");
    Call call = new Call("restore", ownTable());
    expect("TO");
    if (!travel(call, Set.of())) {
      throw unexpected("VERSION AS OF or TIMESTAMP AS OF is expected");
    }
    return call;
  }

  private Call show() throws Other, ParseException {
    String procedure =
        switch (take().keyword()) {
          case "INDEX", "INDEXES" -> "show_indexes";
          case "BRANCH", "BRANCHES" -> "show_branches";
          case "TAG", "TAGS" -> "show_tags";
          default -> throw new Other();
        };
    if (!taken("FROM") && !taken("IN")) {
      throw new Other();
    }
    return new Call(procedure, ownTable());
  }

  private Call alter() throws Other, ParseException {
    if (!taken("TABLE")) {
      throw new Other();
    }
    List<String> table = name();
    String verb = take().keyword();
    switch (verb) {
      case "CREATE", "DROP", "OPTIMIZE", "REFRESH" -> {
        if (!Set.of("INDEX", "BRANCH", "TAG", "OR").contains(peek().keyword())) {
          throw new Other();
        }
      }
      case "SET" -> {
        if (!peek().is("UNENFORCED")) {
          throw new Other();
        }
      }
      case "ADD", "UPDATE" -> {
        return fill(verb, table);
      }
      default -> throw new Other();
    }
    List<String> own = own(table);
    boolean replaces = verb.equals("CREATE") && taken("OR");
    if (replaces) {
      expect("REPLACE");
    }
    if (verb.equals("SET")) {
      take();
      expect("PRIMARY");
      expect("KEY");
      return new Call("set_primary_key", own).with("columns", columns());
    }
    if (!replaces && taken("INDEX")) {
      return alterIndex(verb, own);
    }
    boolean branch = peek().is("BRANCH");
    if (!branch && !peek().is("TAG") || !Set.of("CREATE", "DROP").contains(verb)) {
      throw unexpected("INDEX" + (verb.equals("CREATE") || verb.equals("DROP") ? ", BRANCH or TAG" : "") + " is expected");
    }
    take();
    String procedure = (verb.equals("CREATE") ? "create_" : "drop_") + (branch ? "branch" : "tag");
    Call call = new Call(procedure, own);
    ifExists(call, verb);
    call.with("name", quote(part()));
    if (replaces) {
      call.with("or_replace", "true");
    }
    return verb.equals("CREATE") ? reference(call) : call;
  }

  private Call fill(String verb, List<String> table) throws Other, ParseException {
    if (!taken("COLUMNS") && !taken("COLUMN")) {
      throw new Other();
    }
    List<String> columns = new ArrayList<>();
    do {
      columns.add(quote(nameOr()));
    } while (taken(','));
    if (!taken("FROM")) {
      throw new Other();
    }
    Call call = new Call(verb.equals("ADD") ? "add_columns" : "update_columns", own(table));
    call.with("columns", "array(" + String.join(", ", columns) + ")");
    return call.with("source_rows", quote(until(Set.of(), "a table, a view or a query in parentheses is expected")));
  }

  private Call alterIndex(String verb, List<String> table) throws Other, ParseException {
    Call call =
        new Call(
            switch (verb) {
              case "CREATE" -> "create_index";
              case "DROP" -> "drop_index";
              case "OPTIMIZE" -> "optimize_index";
              default -> "refresh_index";
            },
            table);
    ifExists(call, verb);
    if (verb.equals("OPTIMIZE") && (peek().kind() == Kind.END || peek().is("WITH"))) {
      return call.with("options", options("WITH"));
    }
    call.with("name", quote(part()));
    if (verb.equals("CREATE")) {
      expect("USING");
      call.with("method", quote(part()));
      call.with("columns", columns());
    }
    return verb.equals("DROP") ? call : call.with("options", options("WITH", "OPTIONS"));
  }

  private Call reference(Call call) throws ParseException {
    if (taken("VERSION")) {
      expect("AS");
      expect("OF");
      call.with("version", number());
    } else if (taken("AS")) {
      expect("OF");
      switch (take().keyword()) {
        case "VERSION" -> call.with("version", number());
        case "TAG" -> call.with("from_tag", quote(nameOrText()));
        case "BRANCH" -> {
          call.with("from_branch", quote(nameOrText()));
          if (taken("VERSION")) {
            call.with("version", number());
          }
        }
        default -> {
          back(at() - 1);
          throw unexpected("VERSION, BRANCH or TAG is expected");
        }
      }
    }
    return call;
  }

  private Call create() throws Other, ParseException {
    if (taken("INDEX")) {
      return createIndexOn();
    }
    boolean replaces = taken("OR");
    if (replaces && !taken("REPLACE") || !taken("TABLE")) {
      throw new Other();
    }
    boolean unless = peek().is("IF");
    if (unless && !(taken("IF") && taken("NOT") && taken("EXISTS"))) {
      throw new Other();
    }
    List<String> table = name();
    boolean deep = taken("DEEP");
    if (!deep) {
      taken("SHALLOW");
    }
    if (!taken("CLONE")) {
      throw new Other();
    }
    List<String> target = own(table);
    Call call = new Call("clone", target);
    int before = at();
    List<String> source = own(name());
    if (!source.get(0).equals(target.get(0))) {
      if (!source.get(1).contains("/")) {
        back(before);
        throw unexpected("the two tables of a clone are in one catalog; name the other one by its path");
      }
      // Every catalog of ours knows paths.
      source.set(0, target.get(0));
    }
    call.with("source", quote(Call.written(source)));
    call.with("shallow", Boolean.toString(!deep));
    if (unless) {
      call.with("if_not_exists", "true");
    }
    if (replaces) {
      call.with("or_replace", "true");
    }
    travel(call, Set.of("LOCATION"));
    if (taken("LOCATION")) {
      call.with("location", quote(text()));
    }
    return call;
  }

  private Call createIndexOn() throws Other, ParseException {
    boolean unless = taken("IF");
    if (unless && !(taken("NOT") && taken("EXISTS"))) {
      throw new Other();
    }
    String index = nameOr();
    if (!taken("ON")) {
      throw new Other();
    }
    taken("TABLE");
    Call call = new Call("create_index", ownTable()).with("name", quote(index));
    if (unless) {
      call.with("if_not_exists", "true");
    }
    if (taken("USING")) {
      call.with("method", quote(part()));
    }
    return call.with("columns", columns()).with("options", options("OPTIONS", "WITH"));
  }

  private Call dropIndexOn() throws Other, ParseException {
    if (!taken("INDEX")) {
      throw new Other();
    }
    boolean lenient = taken("IF");
    if (lenient && !taken("EXISTS")) {
      throw new Other();
    }
    String index = nameOr();
    if (!taken("ON")) {
      throw new Other();
    }
    taken("TABLE");
    Call call = new Call("drop_index", ownTable()).with("name", quote(index));
    return lenient ? call.with("if_exists", "true") : call;
  }

  // Parts of statements

  private void ifExists(Call call, String verb) throws ParseException {
    if (!peek().is("IF") || !(verb.equals("CREATE") || verb.equals("DROP"))) {
      return;
    }
    take();
    if (verb.equals("CREATE")) {
      expect("NOT");
    }
    expect("EXISTS");
    call.with(verb.equals("CREATE") ? "if_not_exists" : "if_exists", "true");
  }

  /** VERSION AS OF or TIMESTAMP AS OF; false when there is neither. The time is any expression of Spark's. */
  private boolean travel(Call call, Set<String> after) throws ParseException {
    taken("FOR");
    if (taken("VERSION")) {
      expect("AS");
      expect("OF");
      call.with("version", quote(peek().kind() == Kind.NUMBER ? number() : nameOrText()));
      return true;
    }
    if (!taken("TIMESTAMP")) {
      return false;
    }
    expect("AS");
    expect("OF");
    call.with("timestamp", "timestamp_micros(" + micros(until(after, "a time is expected")) + "L)");
    return true;
  }

  /** The value of an expression that is a time: Spark (4.3) binds arguments before it has resolved all that is in them. */
  private long micros(String expression) throws ParseException {
    Row found = session.sql("SELECT unix_micros(CAST((" + expression + ") AS TIMESTAMP))").head();
    if (found.isNullAt(0)) {
      throw unexpected("the time is null");
    }
    return found.getLong(0);
  }

  private List<String> ownTable() throws Other {
    return own(name());
  }

  private List<String> own(List<String> name) throws Other {
    return Names.own(name, session);
  }
}
