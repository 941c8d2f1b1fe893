package phalanx.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import phalanx.Keyring;
import phalanx.Message;
import phalanx.Messages;
import phalanx.PhalanxKey;
import phalanx.Suite;

/** {@code phalanx_seal} and {@code phalanx_open} in SQL. */
class ColumnsTest extends Fixture {
    private String name;

    /** Executors keep keys by their names, so each test has names of its own. */
    @BeforeEach
    void store() throws IOException {
        name = "file:" + top.resolve("sql.key");
        java.nio.file.Files.write(top.resolve("sql.key"), bytes(32));
        java.nio.file.Files.setPosixFilePermissions(
                top.resolve("sql.key"), java.nio.file.attribute.PosixFilePermissions.fromString("rw-------"));
    }

    private Dataset<Row> sql(String text) {
        return session().sql(text.replace("KEY", "'" + name + "'"));
    }

    @Test
    void whatIsSealedOpensForItsUser() {
        sql("SELECT id, phalanx_seal('name ' || id, KEY, id) AS sealed FROM range(1000)").createOrReplaceTempView("people");
        assertEquals(0, sql("SELECT * FROM people WHERE CAST(phalanx_open(sealed, KEY, id) AS STRING) <> 'name ' || id").count());
        assertEquals(1000, sql("SELECT DISTINCT length(sealed), sealed FROM people").count());
        Exception failure = assertThrows(
                Exception.class, () -> sql("SELECT phalanx_open(sealed, KEY, id + 1) FROM people").collectAsList());
        assertTrue(causes(failure).contains("a value is not authentic for its key and its user"), causes(failure));
    }

    @Test
    void nullsStayNullsAndBinaryIsTaken() {
        Row row = sql("SELECT phalanx_seal(NULL, KEY, 'u'), phalanx_seal('a', KEY, NULL), "
                + "phalanx_open(phalanx_seal(X'00FF', KEY, 'u'), KEY, 'u'), phalanx_open(phalanx_seal('', KEY, 'u'), KEY, 'u')").first();
        assertTrue(row.isNullAt(0));
        assertTrue(row.isNullAt(1));
        assertArrayEquals(new byte[] {0, (byte) 0xff}, (byte[]) row.get(2));
        assertEquals(0, ((byte[]) row.get(3)).length);
    }

    /** A text in Spark may have any bytes. */
    @Test
    void textThatIsNotUtf8StaysAsItIs() {
        for (SparkSession each : List.of(session(), other())) {
            String sealed = "phalanx_seal(CAST(X'C328' AS STRING), KEY, CAST(X'FE' AS STRING))".replace("KEY", "'" + name + "'");
            String opened = "SELECT hex(phalanx_open(" + sealed + ", '" + name + "', CAST(X'%s' AS STRING)))";
            assertEquals("C328", each.sql(String.format(opened, "FE")).first().getString(0));
            Exception failure = assertThrows(Exception.class, () -> each.sql(String.format(opened, "FF")).collectAsList());
            assertTrue(causes(failure).contains("a value is not authentic for its key and its user"), causes(failure));
        }
    }

    private static SparkSession other() {
        SparkSession other = session().newSession();
        PhalanxExtensions.register(other);
        return other;
    }

    @Test
    void eachTaskHasOneSealerAndClosesIt() {
        session().udf().register("sealers_at", functions.udf((byte[] sealed) -> Columns.sealers(), DataTypes.IntegerType).asNondeterministic());
        Row row = sql("SELECT min(s), max(s) FROM (SELECT sealers_at(phalanx_seal('name ' || id, KEY, id)) AS s FROM range(0, 1000, 1, 4))").first();
        // Two of the four tasks run at a time.
        assertTrue(row.getInt(0) >= 1 && row.getInt(1) <= 2, row.toString());
        assertEquals(0, Columns.sealers());
        // A task that fails closes its own, too.
        sql("SELECT id, phalanx_seal('name ' || id, KEY, id) AS sealed FROM range(0, 10, 1, 1)").createOrReplaceTempView("ten");
        assertThrows(Exception.class, () -> sql("SELECT phalanx_open(sealed, KEY, id + 1) FROM ten").collectAsList());
        assertEquals(0, Columns.sealers());
    }

    @Test
    void otherProgramsOpenIt() throws IOException {
        byte[] sealed = (byte[]) sql("SELECT phalanx_seal('text', KEY, 'user 7')").first().get(0);
        PhalanxKey key = phalanx.KeyFiles.key(top.resolve("sql.key"));
        Message message = new Message(key, "user 7".getBytes(StandardCharsets.UTF_8), sealed);
        assertEquals("text", new String(new Messages(Suite.AES_256_CTR_SHA3).open(List.of(message)).get(0), StandardCharsets.UTF_8));
    }

    @Test
    void eachUserMayHaveAKeyOfTheKeyring() throws IOException {
        Keyring ring = Keyring.in(top.resolve("ring"));
        for (int user = 0; user < 3; user++) {
            ring.store("user-" + top.getFileName() + user, PhalanxKey.random());
        }
        // The settings of an application say where its executors have their keyring.
        org.apache.spark.SparkEnv.get().conf().set("spark.hadoop.fs.phalanx.keyring", top.resolve("ring").toString());
        String key = "'user-" + top.getFileName() + "' || id";
        long opened = session().sql("SELECT id, phalanx_seal('x', " + key + ", id) s FROM range(3)")
                .selectExpr("id", "CAST(phalanx_open(s, " + key + ", id) AS STRING) x").where("x = 'x'").count();
        assertEquals(3, opened);
    }

    @Test
    void aKeyItselfIsRefusedAndNotRepeated() {
        String text = "phalanxkey1" + "q".repeat(60);
        Exception failure = assertThrows(
                Exception.class, () -> session().sql("SELECT phalanx_seal('a', '" + text + "', 'u')").collectAsList());
        String said = causes(failure);
        assertTrue(said.contains("has a key itself"), said);
        assertFalse(said.contains(text), said);
    }

    @Test
    void wrongArgumentsAreRefused() {
        assertThrows(Exception.class, () -> sql("SELECT phalanx_seal('a', KEY)").collectAsList());
        assertThrows(Exception.class, () -> sql("SELECT phalanx_seal(1.5, KEY, 'u')").collectAsList());
        assertThrows(Exception.class, () -> sql("SELECT phalanx_seal(id, KEY, 'u') FROM range(1)").collectAsList());
        assertThrows(Exception.class, () -> sql("SELECT phalanx_seal('a', KEY, 1.5)").collectAsList());
        assertThrows(Exception.class, () -> session().sql("SELECT phalanx_seal('a', 'no-such-key', 'u')").collectAsList());
    }

    @Test
    void aSessionWithoutTheExtensionRegistersThem() {
        SparkSession other = other();
        Row row = other.sql("SELECT phalanx_seal('a', '" + name + "', 1) AS s, phalanx_seal('a', '" + name + "', 1) AS t").first();
        assertNotEquals(List.of(row.get(0)), List.of(row.get(1)));
        assertEquals("a", other.sql("SELECT CAST(phalanx_open(phalanx_seal('a', '" + name + "', 1), '" + name + "', 1) AS STRING)")
                .first().getString(0));
    }

    /** The messages of the functions, without those of Spark, which repeat the text of a query. */
    private static String causes(Throwable e) {
        return java.util.stream.Stream.iterate(e, each -> each != null, Throwable::getCause)
                .filter(each -> each instanceof IllegalArgumentException || each instanceof IOException)
                .map(Throwable::getMessage).collect(Collectors.joining("\n"));
    }
}
