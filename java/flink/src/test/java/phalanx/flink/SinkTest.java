package phalanx.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Flink's sink of files: each line is written exactly once, whatever fails. */
class SinkTest extends Fixture {
    @BeforeEach
    void begin() {
        Job.COMPLETED.set(0);
        Job.FAILED.set(false);
    }

    @Test
    void aFailedJobGoesOnWithFilesThatItHadBegun() throws Exception {
        Job.run(settings("work"), top, false, Job.Failure.EXCEPTION, null);
        assertTrue(Job.FAILED.get());
        assertEachLineIsThereOnce();
        // One for each task: that of before the failure was gone on with.
        assertEquals(2, files().size());
        assertEquals(EXPECTED, readByFlink());
    }

    /** Reads the folder as another job does. */
    @SuppressWarnings("try")
    private List<String> readByFlink() throws Exception {
        open("work");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, settings("work"));
        env.setRuntimeMode(RuntimeExecutionMode.BATCH);
        var source = FileSource.forRecordStreamFormat(new TextLineInputFormat(), path("")).build();
        List<String> lines = new ArrayList<>();
        try (CloseableIterator<String> read = env.fromSource(source, WatermarkStrategy.noWatermarks(), "again").executeAndCollect()) {
            read.forEachRemaining(lines::add);
        }
        lines.sort(Comparator.naturalOrder());
        return lines;
    }

    @Test
    void aFailedJobWritesEachBulkOnce() throws Exception {
        Job.run(settings("work"), top, true, Job.Failure.EXCEPTION, null);
        assertTrue(Job.FAILED.get());
        assertEachLineIsThereOnce();
        assertTrue(files().size() > 2, "a file for each checkpoint");
    }

    /** The newest checkpoint that is complete. */
    private Path checkpoint() throws IOException {
        try (var all = Files.walk(top.resolve("checkpoints"))) {
            return all.filter(each -> each.endsWith("_metadata.phx")).map(Path::getParent)
                    .max(Comparator.comparing(each -> Integer.parseInt(each.getFileName().toString().substring("chk-".length())))).orElseThrow();
        }
    }

    private void killInTheMiddle(String format) throws Exception {
        Process first = Job.start(top, List.of(), format, "killed");
        try {
            while (!Files.exists(top.resolve("mark"))) {
                assertTrue(first.isAlive(), this::said);
                first.waitFor(10, TimeUnit.MILLISECONDS);
            }
        } finally {
            first.destroyForcibly().waitFor();
        }
        // Neither what is written nor any checkpoint shows the text.
        try (var all = Files.walk(top)) {
            for (Path each : all.filter(Files::isRegularFile).toList()) {
                assertFalse(new String(Files.readAllBytes(each), StandardCharsets.ISO_8859_1).contains("the line with"), each.toString());
            }
        }
        Process second = Job.start(top, List.of(), format, "phalanx+file://" + checkpoint());
        assertEquals(0, second.waitFor(), this::said);
        assertEachLineIsThereOnce();
    }

    @Test
    void aKilledJobGoesOnFromItsCheckpoint() throws Exception {
        killInTheMiddle("row");
        assertEquals(2, files().size());
    }

    @Test
    void aKilledJobWritesEachBulkOnce() throws Exception {
        killInTheMiddle("bulk");
    }
}
