package io.lancelet.spark.python;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A process that answers questions. Both ways a message is its length in four bytes and JSON; answers carry the number of
 * their question, and come in any order. It ends when its input does: with this Java, however that ends.
 *
 * <pre>
 *   {"number": 7, "ask": "load_table", "details": {...}}
 *   {"number": 7, "answer": {...}}
 *   {"number": 7, "kind": "table_not_found", "error": "TableNotFound", "sentence": "..."}
 * </pre>
 */
final class Child {
  private static final int LAST_WORDS = 2000;

  /** The process is not there any more. */
  static final class Gone extends Exception {
    Gone(String message) {
      super(message);
    }
  }

  private final Process process;
  private final String command;
  private final DataOutputStream questions;
  private final AtomicLong numbers = new AtomicLong();
  private final Map<Long, CompletableFuture<JsonNode>> waiting = new ConcurrentHashMap<>();
  private final StringBuilder lastWords = new StringBuilder();
  private final Thread errors;
  private volatile boolean ended;

  private Child(Process process, String command) {
    this.process = process;
    this.command = command;
    this.questions = new DataOutputStream(new BufferedOutputStream(process.getOutputStream()));
    this.errors = background("errors", this::readErrors);
    background("answers", this::readAnswers);
  }

  static Child start(String interpreter, List<String> arguments, String path) throws IOException {
    List<String> command = new ArrayList<>(List.of(interpreter));
    command.addAll(arguments);
    ProcessBuilder builder = new ProcessBuilder(command);
    builder.environment().put("PYTHONPATH", path);
    return new Child(builder.start(), String.join(" ", command));
  }

  boolean isAlive() {
    return !ended && process.isAlive();
  }

  JsonNode ask(Ask question, Map<String, ?> details) throws Gone {
    long number = numbers.incrementAndGet();
    CompletableFuture<JsonNode> answer = new CompletableFuture<>();
    waiting.put(number, answer);
    try {
      send(number, question, details);
      if (ended) {
        throw new IOException("ended");
      }
      return answered(answer.get());
    } catch (IOException | ExecutionException error) {
      throw new Gone(obituary());
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      if (waiting.remove(number) == null) {
        answer.thenAccept(this::abandonJob);
      }
      throw new IllegalStateException(
          "stopped while Python answered '"
              + question.written()
              + (question.changes ? "'; the change may still be made: look at the table before you try again" : "'"),
          stopped);
    } finally {
      waiting.remove(number);
    }
  }

  /** When the answer that nobody waits for is a job: its procedure is to end, and to remove what it wrote. */
  private void abandonJob(JsonNode message) {
    JsonNode job = message.path("answer").path(Details.JOB);
    try {
      if (!job.isMissingNode()) {
        send(numbers.incrementAndGet(), Ask.CONTINUE_PROCEDURE, failed(job.asLong()));
      }
    } catch (IOException gone) {
      return;
    }
  }

  /** That there are no results of a job, and never will be. */
  static Map<String, Object> failed(long job) {
    Map<String, Object> failed = new HashMap<>(Map.of(Details.JOB, job));
    failed.put(Details.RESULTS, null);
    return failed;
  }

  private void send(long number, Ask question, Map<String, ?> details) throws IOException {
    Map<String, Object> message = new LinkedHashMap<>();
    message.put("number", number);
    message.put("ask", question.written());
    message.put("details", details);
    byte[] bytes = Python.JSON.writeValueAsBytes(message);
    synchronized (questions) {
      questions.writeInt(bytes.length);
      questions.write(bytes);
      questions.flush();
    }
  }

  private static JsonNode answered(JsonNode message) {
    if (message.has("kind")) {
      String[] names = message.has("names") ? Python.JSON.convertValue(message.get("names"), String[].class) : null;
      Refusal.Kind kind = Refusal.Kind.of(message.get("kind").asText());
      throw new Refusal(kind, message.path("error").asText(null), message.get("sentence").asText(), names);
    }
    return message.get("answer");
  }

  private void readAnswers() {
    try (DataInputStream answers = new DataInputStream(process.getInputStream())) {
      while (true) {
        JsonNode message = Python.JSON.readTree(answers.readNBytes(answers.readInt()));
        CompletableFuture<JsonNode> answer = waiting.remove(message.get("number").asLong());
        if (answer != null) {
          answer.complete(message);
        } else {
          abandonJob(message);
        }
      }
    } catch (IOException | RuntimeException end) {
      ended = true;
      process.destroy();
      waiting.values().forEach(answer -> answer.completeExceptionally(end));
    }
  }

  /** What it says goes where ours goes; its last words are kept, for they tell why it ended. */
  private void readErrors() {
    try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        System.err.println(line);
        synchronized (lastWords) {
          lastWords.append(line).append('\n');
          lastWords.delete(0, Math.max(0, lastWords.length() - LAST_WORDS));
        }
      }
    } catch (IOException closed) {
      return;
    }
  }

  private String obituary() {
    try {
      errors.join(1000);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
    synchronized (lastWords) {
      return command + (lastWords.isEmpty() ? "" : "; its last words:\n" + lastWords.toString().strip());
    }
  }

  private static Thread background(String name, Runnable work) {
    Thread thread = new Thread(work, "lancelet-python-" + name);
    thread.setDaemon(true);
    thread.start();
    return thread;
  }
}
