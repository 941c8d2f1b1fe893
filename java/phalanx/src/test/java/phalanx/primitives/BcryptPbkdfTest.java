package phalanx.primitives;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

/** OpenBSD's vectors of bcrypt_pbkdf, and the keys of SSH as keys of X25519. */
class BcryptPbkdfTest {
    private static final String[][] VECTORS = {
        {"password", "salt", "4", "5bbf0cc293587f1c3635555c27796598d47e579071bf427e9d8fbe842aba34d9"},
        {"password", "\0", "4", "c12b566235eee04c212598970a579a67"},
        {"\0", "salt", "4", "6051be18c2f4f82cbf0efee5471b4bb9"},
        {"password\0", "salt\0", "4", "7410e44cf4fa07bfaac8a928b1727fac001375e7bf7384370f48efd121743050"},
        {"pass\0wor", "sa\0l", "4", "c2bffd9db38f6569efef4372f4de83c0"},
        {"pass\0word", "sa\0lt", "4", "4ba4ac3925c0e8d7f0cdb6bb1684a56f"},
        {"password", "salt", "8", "e1367ec5151a33faac4cc1c144cd23fa15d5548493ecc99b9b5d9c0d3b27bec7"
            + "6227ea66088b849b20ab7aa478010246e74bba51723fefa9f9474d6508845e8d"},
        {"password", "salt", "42", "833cf0dcf56db65608e8f0dc0ce882bd"},
    };

    @Test
    void derivesWhatOpenBsdDerives() {
        for (String[] each : VECTORS) {
            byte[] expected = HexFormat.of().parseHex(each[3]);
            byte[] passphrase = each[0].getBytes(StandardCharsets.US_ASCII);
            byte[] salt = each[1].getBytes(StandardCharsets.US_ASCII);
            byte[] key = BcryptPbkdf.derive(passphrase, salt, Integer.parseInt(each[2]), expected.length);
            assertEquals(each[3], HexFormat.of().formatHex(key), each[0]);
        }
    }

    @Test
    void bothFormsOfTheCurveHaveTheSamePublicKey() {
        for (int i = 0; i < 200; i++) {
            byte[] seed = new byte[32];
            seed[i % 32] = (byte) (i + 1);
            byte[] expected = X25519.publicKey(Ed25519.agreementSecret(seed));
            String found = HexFormat.of().formatHex(Ed25519.agreementKey(Ed25519.publicKey(seed)));
            assertEquals(HexFormat.of().formatHex(expected), found);
        }
    }
}
