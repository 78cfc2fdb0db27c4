/** Bytes that are kept for long. */

/**
 * The same bytes, in memory that holds nothing else. Node cuts small buffers from blocks of 8 KiB: one that is kept would
 * keep its whole block.
 */
export function unpooledBuffer(bytes: Buffer): Buffer {
  if (bytes.buffer.byteLength === bytes.byteLength) return bytes
  const own = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(own)
  return own
}
