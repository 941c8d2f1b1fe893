/**
 * The Phalanx file format on the JVM: files, streams and messages, encrypted with AES and authenticated with SHA-3.
 */
package phalanx;
