package io.lancelet.spark.sql;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

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

  private Words(String text) {
    this.text = text;
  }

  /** All words; a semicolon at the end is not one of them. The last is the END. */
  static List<Word> of(String text) {
    Words words = new Words(text);
    List<Word> found = new ArrayList<>();
    for (Word word = words.next(); word.kind() != Kind.END; word = words.next()) {
      found.add(word);
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
      return new Word(Kind.QUOTED, quoted('`', false), start, at);
    }
    if (first == '\'' || first == '"') {
      return new Word(Kind.TEXT, quoted(first, true), start, at);
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

  /** What is between quotes; one that is doubled stands for itself, and in texts a backslash changes what follows. */
  private String quoted(char quote, boolean escapes) {
    StringBuilder found = new StringBuilder();
    for (at++; at < text.length(); at++) {
      char mark = text.charAt(at);
      if (mark == quote) {
        if (at + 1 < text.length() && text.charAt(at + 1) == quote) {
          at++;
        } else {
          at++;
          return found.toString();
        }
      } else if (escapes && mark == '\\' && at + 1 < text.length()) {
        at++;
        mark = unescaped(text.charAt(at));
      }
      found.append(mark);
    }
    return found.toString();
  }

  private static char unescaped(char mark) {
    return switch (mark) {
      case 'n' -> '\n';
      case 't' -> '\t';
      case 'r' -> '\r';
      case '0' -> '\0';
      default -> mark;
    };
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
      } else {
        return;
      }
    }
  }
}
