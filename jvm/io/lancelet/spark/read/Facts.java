package io.lancelet.spark.read;

import com.fasterxml.jackson.core.JsonProcessingException;
import io.lancelet.spark.python.Python;
import java.util.List;
import org.apache.spark.sql.types.Metadata;

/**
 * What Python says about the table besides its columns.
 *
 * @param uri folder of the table or of its branch; null when nobody asked, or there is none
 * @param version the version that the columns belong to
 * @param rows live rows, or -1 when they are not known without reading
 * @param bytes size of the data files
 * @param indexed columns that have an index which knows their values
 * @param pushes whether conditions, limits and counts may be pushed down
 */
public record Facts(String uri, long version, long rows, long bytes, List<String> indexed, boolean pushes) {
  public static final Facts NONE = new Facts(null, -1, -1, -1, List.of(), false);

  static Facts of(Metadata metadata) {
    if (!metadata.contains("uri")) {
      return NONE;
    }
    return new Facts(
        metadata.getString("uri"),
        metadata.getLong("version"),
        metadata.getLong("rows"),
        metadata.getLong("bytes"),
        names(metadata.getString("indexed")),
        metadata.getBoolean("pushes"));
  }

  private static List<String> names(String json) {
    try {
      return List.of(Python.JSON.readValue(json, String[].class));
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
