/** The framing of git's wire protocol: four hexadecimal digits of length, then the bytes. */

export const FLUSH = '0000'
/** The largest packet that git reads, including its four digits. */
const MAX_PACKET = 65520
/** A side-band packet has one more byte: the number of the band. */
const MAX_BAND_DATA = MAX_PACKET - 5

/** Writes one packet. The text must be shorter than 65,517 bytes. */
export function packet(text: string | Uint8Array): Buffer {
  const data = Buffer.from(text)
  return Buffer.concat([Buffer.from((data.length + 4).toString(16).padStart(4, '0')), data])
}

/** Splits `data` into side-band packets. Band 1 is the answer itself, 2 is shown to the user, 3 is a fatal error. */
export function bandPackets(band: 1 | 2 | 3, data: Buffer): Buffer {
  const packets: Buffer[] = []
  for (let at = 0; at < data.length; at += MAX_BAND_DATA) {
    packets.push(packet(Buffer.concat([Buffer.from([band]), data.subarray(at, at + MAX_BAND_DATA)])))
  }
  return Buffer.concat(packets)
}

/**
 * Reads the packet at the beginning of `data`; undefined while bytes of it are missing. `length` is its length in
 * bytes, with the digits. `malformed` when it doesn't begin with digits or its length is impossible.
 */
export function readPacket(
  data: Buffer,
):
  | { kind: 'data'; payload: Buffer; length: number }
  | { kind: 'flush'; length: 4 }
  | 'malformed'
  | undefined {
  if (data.length < 4) return undefined
  const digits = data.toString('latin1', 0, 4)
  if (!/^[0-9a-fA-F]{4}$/.test(digits)) return 'malformed'
  const length = Number.parseInt(digits, 16)
  if (length === 0) return { kind: 'flush', length: 4 }
  if (length < 4 || length > MAX_PACKET) return 'malformed'
  if (data.length < length) return undefined
  return { kind: 'data', payload: data.subarray(4, length), length }
}
