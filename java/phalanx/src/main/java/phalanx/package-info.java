/**
 * The Phalanx file format on the JVM: files, streams and messages, encrypted with AES and authenticated with SHA-3.
 *
 * <ul>
 *   <li>{@link phalanx.Protector} and {@link phalanx.Unprotector} protect and unprotect files and streams.
 *   <li>{@link phalanx.PhalanxFile} reads a protected file by range.
 *   <li>{@link phalanx.PhalanxTree} checks a protected folder against its manifest, which {@link phalanx.Manifest} reads.
 *   <li>{@link phalanx.Messages} seals and opens many short messages at once, and {@link phalanx.MessageSealer} one after another.
 *   <li>{@link phalanx.Server} is a client of phalanx-server, which has the keys of many users.
 *   <li>{@link phalanx.AgeRecipient} is a public key of age or SSH, for which files are protected, and {@link phalanx.AgeIdentity} the
 *       private key that opens them. The sender of such a file is unknown.
 *   <li>{@link phalanx.KeyServices} are the key services that may be asked, each a {@link phalanx.KeyService}: AWS KMS, Vault, or
 *       any other that has a key and never gives it away.
 *   <li>{@link phalanx.Keyring} and {@link phalanx.KeyFiles} have the keys of the command {@code phalanx}. {@link phalanx.NamedKeys} are those
 *       that the settings of an engine name.
 *   <li>{@link phalanx.Header}, {@link phalanx.Layout} and {@link phalanx.ChunkCipher} are for programs that divide files
 *       among processes, and for tools.
 * </ul>
 *
 * <p>Failures are {@link phalanx.PhalanxException}s, whose type says what is wrong. Those of the system's input and
 * output are passed on unchanged. The format is docs/format.md, and sections named here are its sections.
 *
 * <p><b>Secrets.</b> Keys, passwords and buffers of plaintext are overwritten when they are closed or no longer needed.
 * Java allows no more than that: the garbage collector moves and copies arrays, the JCE and Bouncy Castle keep the keys
 * that they get, and memory may be swapped or dumped. Tags are compared in constant time. AES uses the CPU's AES
 * instructions after the JVM has compiled the code that calls them. Before that, and always for key schedules and for
 * wrapping file keys, it looks up tables. So does bcrypt, for passphrases of SSH keys; and RSA is blinded, but not in
 * constant time. If you share a CPU with an attacker who can time caches, use the program in
 * Rust.
 */
package phalanx;
