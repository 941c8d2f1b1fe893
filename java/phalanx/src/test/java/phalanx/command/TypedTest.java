package phalanx.command;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class TypedTest {
    @Test
    void whatIsNotKnownIsRefusedAndWiped() {
        char[] known = "gr\u00fcn \ud83d\udd11".toCharArray();
        assertSame(known, Typed.checked(known));
        char[] unknown = "gr\ufffd\ufffdn".toCharArray();
        Typed.UnknownCharacter e = assertThrows(Typed.UnknownCharacter.class, () -> Typed.checked(unknown));
        assertArrayEquals(new char[unknown.length], unknown);
        assertEquals(Failure.Code.USAGE, e.failure().code());
    }
}
