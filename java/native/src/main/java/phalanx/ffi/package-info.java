/**
 * Files and messages by libphalanx, the library in Rust, where it is installed. The bytes, the keys and the failures are those of the package
 * {@code phalanx}, which needs no library.
 *
 * <ul>
 *   <li>{@link phalanx.ffi.NativeLibrary} finds the library.
 *   <li>{@link phalanx.ffi.NativeProtector} and {@link phalanx.ffi.NativeUnprotector} protect and unprotect files, for the keys, passwords and
 *       others of {@link phalanx.ffi.NativeWays}.
 *   <li>{@link phalanx.ffi.NativeFile} reads a protected file by range.
 *   <li>{@link phalanx.ffi.NativeMessages} seals and opens many short messages at once.
 * </ul>
 *
 * <p><b>Secrets.</b> Keys, passwords and plaintexts that are copied into native memory are wiped there. What is in Java's memory is as the
 * documentation of {@code phalanx} says.
 */
package phalanx.ffi;
