/** Reads the index of a pack, in version 2 of gitformat-pack(5), and tracks which of its objects were looked up. */
import { type FileHandle, open } from 'node:fs/promises'
import { timeSlices } from '../../concurrency/event-loop.ts'
import { GitUnavailable } from '../process/errors.ts'

const FAN_OUT_AT = 8
const FAN_OUT_BYTES = 256 * 4
const IDS_AT = FAN_OUT_AT + FAN_OUT_BYTES
const ID_BYTES = 20
const CHECKSUM_BYTES = 4
const OFFSET_BYTES = 4
/** An offset with this bit is an index into the table of large offsets. */
const IS_LARGE = 0x80000000
const LARGE_BYTES = 8
const MAX_READ = 1024 * 1024

export interface PackIndex {
  count: number
  /** Whether the pack has the object. It counts as looked up from then on. */
  lookUp(id: string): boolean
  /** The ids of the objects that were never looked up. */
  unseen(): AsyncIterable<string>
  /** The ids of the last `count` objects in the pack. */
  last(count: number): Promise<string[]>
}

/** Reads the index of a pack, and holds 20 bytes for each object. */
export async function readPackIndex(path: string): Promise<PackIndex> {
  const fanOut = await inFile(path, (file) => bytesAt(file, FAN_OUT_AT, FAN_OUT_BYTES))
  /** Number of objects whose ids begin with this byte or a lower one. */
  const upTo = (first: number) => (first < 0 ? 0 : fanOut.readUInt32BE(4 * first))
  const count = upTo(255)
  const ids = await inFile(path, (file) => bytesAt(file, IDS_AT, count * ID_BYTES))
  const seen = new Uint8Array(count)
  const idAt = (place: number) => ids.toString('hex', place * ID_BYTES, (place + 1) * ID_BYTES)

  return {
    count,
    lookUp(id) {
      const wanted = Buffer.from(id, 'hex')
      const first = wanted.readUInt8(0)
      let low = upTo(first - 1)
      let high = upTo(first)
      while (low < high) {
        const middle = (low + high) >>> 1
        const order = ids.compare(wanted, 0, ID_BYTES, middle * ID_BYTES, (middle + 1) * ID_BYTES)
        if (order < 0) low = middle + 1
        else high = middle
      }
      const isThere = low < upTo(first) && idAt(low) === id
      // A pack may have an object twice.
      for (let place = low; isThere && place < count && idAt(place) === id; place += 1) seen[place] = 1
      return isThere
    },
    async *unseen() {
      const { pauseIfOver } = timeSlices()
      for (let place = seen.indexOf(0); place !== -1; place = seen.indexOf(0, place + 1)) {
        yield idAt(place)
        await pauseIfOver()
      }
    },
    last: async (wanted) => (await inFile(path, (file) => lastPlaces(file, count, wanted))).map(idAt),
  }
}

/** The places, in the order of the ids, of the objects that come last in the pack. */
async function lastPlaces(file: FileHandle, count: number, wanted: number): Promise<number[]> {
  const offsetsAt = IDS_AT + count * (ID_BYTES + CHECKSUM_BYTES)
  const largeAt = offsetsAt + count * OFFSET_BYTES
  const offsets = await bytesAt(file, offsetsAt, count * OFFSET_BYTES)
  let last: { place: number; at: number }[] = []
  const keepLast = () => {
    last = last.sort((one, other) => other.at - one.at).slice(0, wanted)
  }
  const { pauseIfOver } = timeSlices()
  for (let place = 0; place < count; place += 1) {
    const offset = offsets.readUInt32BE(place * OFFSET_BYTES)
    const at =
      offset < IS_LARGE
        ? offset
        : Number(
            (await bytesAt(file, largeAt + (offset - IS_LARGE) * LARGE_BYTES, LARGE_BYTES)).readBigUInt64BE(),
          )
    last.push({ place, at })
    if (last.length < 2 * wanted + 1000) continue
    keepLast()
    await pauseIfOver()
  }
  keepLast()
  return last.map(({ place }) => place)
}

async function inFile<T>(path: string, read: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path)
  try {
    return await read(file)
  } finally {
    await file.close()
  }
}

async function bytesAt(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length)
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(bytes, done, Math.min(MAX_READ, length - done), at + done)
    if (bytesRead === 0) throw new GitUnavailable('the index of a pack is too short')
    done += bytesRead
  }
  return bytes
}
