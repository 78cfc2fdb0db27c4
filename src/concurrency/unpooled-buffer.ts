/**
 * Returns the bytes in memory of their own. Node allocates small buffers from blocks of 8 KiB: a cached one would keep its
 * whole block alive.
 */
export function unpooledBuffer(bytes: Buffer): Buffer {
  if (bytes.buffer.byteLength === bytes.byteLength) return bytes
  const own = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(own)
  return own
}
