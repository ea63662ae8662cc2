package io.lancelet.spark.sql;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.catalyst.util.SparkParserUtils$;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The words of a statement, as far as our statements go: names, texts, numbers and single marks; comments are left out.
 * What Spark would read in another way (hints, raw texts, parameters) becomes marks, on which no statement of ours begins.
 */
final class Words {
  enum Kind {
    WORD,
    QUOTED,
    TEXT,
    NUMBER,
    MARK,
    END
  }

  /**
   * A word and where it stands.
   *
   * @param text without quotes; of a mark, the mark
   */
  record Word(Kind kind, String text, int start, int stop) {
    boolean is(String keyword) {
      return kind == Kind.WORD && text.equalsIgnoreCase(keyword);
    }

    boolean isMark(char mark) {
      return kind == Kind.MARK && text.charAt(0) == mark;
    }

    String keyword() {
      return kind == Kind.WORD ? text.toUpperCase(Locale.ROOT) : "";
    }
  }

  private final String text;
  private int at;

  /** Something that was begun has no end: a text, a quoted name, a comment. */
  private boolean open;

  private Words(String text) {
    this.text = text;
  }

  /** The first word of a text, which may be a long one. */
  static Word first(String text) {
    return new Words(text).next();
  }

  /** All words; a semicolon at the end is not one of them. The last is the END. None when a quote or comment stays open. */
  static List<Word> of(String text) {
    Words words = new Words(text);
    List<Word> found = new ArrayList<>();
    for (Word word = words.next(); word.kind() != Kind.END; word = words.next()) {
      found.add(word);
    }
    if (words.open) {
      return List.of();
    }
    int end = text.length();
    while (!found.isEmpty() && found.get(found.size() - 1).isMark(';')) {
      end = found.remove(found.size() - 1).start();
    }
    found.add(new Word(Kind.END, "end of input", end, end));
    return found;
  }

  private Word next() {
    skip();
    int start = at;
    if (at >= text.length()) {
      return new Word(Kind.END, "", at, at);
    }
    char first = text.charAt(at);
    if (first == '`') {
      quoted('`', false);
      String name = text.substring(start + 1, Math.max(start + 1, at - 1));
      return new Word(Kind.QUOTED, name.replace("``", "`"), start, at);
    }
    if (first == '\'' || first == '"') {
      quoted(first, true);
      return new Word(Kind.TEXT, open ? "" : read(text.substring(start, at)), start, at);
    }
    if (isPartOfName(first)) {
      while (at < text.length() && isPartOfName(text.charAt(at))) {
        at++;
      }
      if (Character.isDigit(first) && isNumber(start)) {
        return new Word(Kind.NUMBER, text.substring(start, at), start, at);
      }
      return new Word(Kind.WORD, text.substring(start, at), start, at);
    }
    at++;
    return new Word(Kind.MARK, String.valueOf(first), start, at);
  }

  private static boolean isPartOfName(char mark) {
    return Character.isLetterOrDigit(mark) || mark == '_';
  }

  /** Whether a number begins there; its fraction and exponent are taken, too. */
  private boolean isNumber(int start) {
    if (at + 1 < text.length() && text.charAt(at) == '.' && Character.isDigit(text.charAt(at + 1))) {
      at++;
      while (at < text.length() && isPartOfName(text.charAt(at))) {
        at++;
      }
    }
    char last = text.charAt(at - 1);
    if ((last == 'e' || last == 'E') && at + 1 < text.length() && "+-".indexOf(text.charAt(at)) >= 0) {
      at++;
      while (at < text.length() && Character.isDigit(text.charAt(at))) {
        at++;
      }
    }
    return text.substring(start, at).matches("\\d+(\\.\\d+)?([eE][+-]?\\d+)?[fFdDlL]?");
  }

  /** To behind the quote that ends; one that is doubled does not, and in texts none does that follows a backslash. */
  private void quoted(char quote, boolean escapes) {
    for (at++; at < text.length(); at++) {
      char mark = text.charAt(at);
      if (mark == quote) {
        if (at + 1 >= text.length() || text.charAt(at + 1) != quote) {
          at++;
          return;
        }
        at++;
      } else if (escapes && mark == '\\') {
        at++;
      }
    }
    at = text.length();
    open = true;
  }

  /** What a text in its quotes means, as Spark is set to read it. */
  private static String read(String token) {
    return SQLConf.get().escapedStringLiterals()
        ? token.substring(1, token.length() - 1)
        : SparkParserUtils$.MODULE$.unescapeSQLString(token, false);
  }

  /** Over spaces and comments, of which those in brackets may have others in them. */
  private void skip() {
    while (at < text.length()) {
      if (Character.isWhitespace(text.charAt(at))) {
        at++;
      } else if (text.startsWith("--", at)) {
        int end = text.indexOf('\n', at);
        at = end < 0 ? text.length() : end + 1;
      } else if (text.startsWith("/*", at)) {
        int depth = 0;
        do {
          depth += text.startsWith("/*", at) ? 1 : text.startsWith("*/", at) ? -1 : 0;
          at += text.startsWith("/*", at) || text.startsWith("*/", at) ? 2 : 1;
        } while (depth > 0 && at < text.length());
        open |= depth > 0;
      } else {
        return;
      }
    }
  }
}
