package phalanx;

import java.io.IOException;

/**
 * Why a call of this library failed, unless the system's input or output failed. The message is one line, and names
 * neither a secret nor the path, which the caller knows.
 */
public abstract sealed class PhalanxException extends IOException
        permits NotPhalanxException,
                UnsupportedVersionException,
                MalformedHeaderException,
                MalformedManifestException,
                KeyDerivationException,
                WrongKeyException,
                AuthenticationException,
                KeyException,
                ChangedException,
                OutputException,
                ServerException {
    private static final long serialVersionUID = 1L;

    PhalanxException(String message) {
        super(message);
    }

    PhalanxException(String message, Throwable cause) {
        super(message, cause);
    }
}
