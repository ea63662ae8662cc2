package io.lancelet.spark.sql;

import static io.lancelet.spark.sql.Call.quote;

import io.lancelet.spark.sql.Words.Kind;
import io.lancelet.spark.sql.Words.Word;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.parser.ParseException;

/** A statement as it is read from word to word, and what statements have in common: names, numbers, options, columns. */
class Sentence {
  /** The statement is not one of ours. */
  static final class Other extends Exception {
    Other() {
      super(null, null, false, false);
    }
  }

  private final String text;
  private final List<Word> words;
  private int at;

  Sentence(String text, List<Word> words) {
    this.text = text;
    this.words = words;
  }

  /** {@code (name = value, ...)} after one of the words; null when there is none. */
  String options(String... before) throws ParseException {
    if (Arrays.stream(before).noneMatch(this::taken)) {
      return null;
    }
    mark('(');
    List<String> found = new ArrayList<>();
    while (!peek().isMark(')')) {
      if (!found.isEmpty()) {
        mark(',');
      }
      StringBuilder key = new StringBuilder(nameOrText());
      while (peek().isMark('.')) {
        take();
        key.append('.').append(part());
      }
      if (peek().isMark('=')) {
        take();
      }
      found.add(quote(key.toString()));
      found.add(quote(constant()));
    }
    take();
    return "map(" + String.join(", ", found) + ")";
  }

  String constant() throws ParseException {
    if (peek().isMark('-') || peek().kind() == Kind.NUMBER) {
      String sign = peek().isMark('-') ? take().text() : "";
      if (peek().kind() != Kind.NUMBER) {
        throw unexpected("a number is expected");
      }
      return sign + take().text().replaceAll("[fFdDlL]$", "");
    }
    if (peek().is("TRUE") || peek().is("FALSE")) {
      return take().text();
    }
    return text();
  }

  /** {@code (column, nested.field, ...)}. */
  String columns() throws ParseException {
    mark('(');
    List<String> found = new ArrayList<>();
    do {
      List<String> path = new ArrayList<>(List.of(part()));
      while (peek().isMark('.')) {
        take();
        path.add(part());
      }
      found.add(quote(Call.written(path)));
    } while (taken(','));
    mark(')');
    return "array(" + String.join(", ", found) + ")";
  }

  List<String> name() throws Other {
    List<String> parts = new ArrayList<>(List.of(nameOr()));
    while (peek().isMark('.')) {
      take();
      parts.add(nameOr());
    }
    return parts;
  }

  String nameOr() throws Other {
    if (peek().kind() != Kind.WORD && peek().kind() != Kind.QUOTED) {
      throw new Other();
    }
    return take().text();
  }

  String part() throws ParseException {
    if (peek().kind() != Kind.WORD && peek().kind() != Kind.QUOTED) {
      throw unexpected("a name is expected");
    }
    return take().text();
  }

  String nameOrText() throws ParseException {
    return peek().kind() == Kind.TEXT ? take().text() : part();
  }

  String text() throws ParseException {
    if (peek().kind() != Kind.TEXT) {
      throw unexpected("a text in quotes is expected");
    }
    return take().text();
  }

  String number() throws ParseException {
    if (peek().kind() != Kind.NUMBER || !peek().text().matches("\\d+")) {
      throw unexpected("a number is expected");
    }
    return take().text();
  }

  void expect(String keyword) throws ParseException {
    if (!taken(keyword)) {
      throw unexpected(keyword + " is expected");
    }
  }

  void mark(char mark) throws ParseException {
    if (!taken(mark)) {
      throw unexpected("'" + mark + "' is expected");
    }
  }

  boolean taken(String keyword) {
    boolean found = peek().is(keyword);
    at += found ? 1 : 0;
    return found;
  }

  boolean taken(char mark) {
    boolean found = peek().isMark(mark);
    at += found ? 1 : 0;
    return found;
  }

  Word peek() {
    return words.get(Math.min(at, words.size() - 1));
  }

  Word take() {
    Word word = peek();
    at++;
    return word;
  }

  ParseException unexpected(String hint) {
    return SyntaxError.at(text, peek(), hint);
  }

  /** What is written from here to one of these words outside of parentheses, or to the end. */
  String until(Set<String> after, String hint) throws ParseException {
    int start = peek().start();
    int stop = start;
    int depth = 0;
    while (peek().kind() != Kind.END && (depth > 0 || !after.contains(peek().keyword()))) {
      depth += peek().isMark('(') ? 1 : peek().isMark(')') ? -1 : 0;
      stop = take().stop();
    }
    if (stop == start) {
      throw unexpected(hint);
    }
    return text.substring(start, stop);
  }

  /** Where it is read, for {@link #back}. */
  int at() {
    return at;
  }

  void back(int before) {
    at = before;
  }
}
