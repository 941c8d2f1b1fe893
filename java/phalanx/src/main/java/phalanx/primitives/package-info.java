/**
 * The primitives that the format is made of. They are public only for this library's own packages and may change at any
 * time.
 */
package phalanx.primitives;
