/**
 * Overwrites the unused bytes of a SQLite file. `secure_delete` overwrites deleted rows; but when rows move to another
 * page, the old page keeps their bytes, and so do pages that were freed before `secure_delete` was on.
 * A page of a table or an index consists of a header, an array of pointers, a gap, and cells with free blocks between them
 * (https://sqlite.org/fileformat2.html). The driver has no access to the bytes of a page, so they are read and written in
 * the file. That is safe while the WAL is empty and the write lock is held: then no page has another copy. Readers ignore
 * the overwritten bytes, so a crash in the middle leaves a sound page.
 */
import { fsyncSync, openSync, readSync, statSync, writeSync } from 'node:fs'
import { bufferOf, connect, LOCK_WAIT_MS, type Sqlite, selectColumn } from './sqlite.ts'

/** Header length by type of page. */
const HEADERS: ReadonlyMap<number | undefined, number> = new Map([
  [2, 12],
  [5, 12],
  [10, 8],
  [13, 8],
])
/** Number of pages from which an overflow page could look like another type. */
const TOO_MANY_PAGES = 0x02000000
const LOCK_BYTE = 0x40000000

/**
 * The opened files, by device and inode. They stay open: when a process closes a file, the system releases all of its locks
 * on that file, including those of SQLite's connections.
 */
const opened = new Map<string, number>()

/**
 * Scrubs at most `count` pages from page `first`, which is at least 2: page 1 has a longer header. Returns the next page; 0
 * at the end; undefined when a reader or a writer blocks it. The caller's connections must not be in a transaction.
 */
export function scrubPages(file: string, first: number, count: number): number | undefined {
  const db = connect(file)
  try {
    if (!emptyWal(db)) return undefined
    db.exec('BEGIN IMMEDIATE')
    // Another connection may have written meanwhile.
    if (statSync(`${file}-wal`).size > 0) return undefined
    const next = scrub(openOnce(file), first, count)
    // This change makes all connections drop their cached pages. Otherwise they would write the old bytes back.
    const version = selectColumn<[], number>(db, 'PRAGMA user_version').get() ?? 0
    db.exec(`PRAGMA user_version = ${version}; COMMIT`)
    return next
  } finally {
    db.close()
  }
}

function openOnce(file: string): number {
  // A rebuilt or restored file may have replaced the earlier one.
  const { dev, ino } = statSync(file)
  const key = `${dev} ${ino}`
  const number = opened.get(key) ?? openSync(file, 'r+')
  opened.set(key, number)
  return number
}

function scrub(file: number, first: number, count: number): number {
  const head = Buffer.alloc(100)
  readSync(file, head, 0, head.length, 0)
  const size = head.readUInt16BE(16) === 1 ? 65536 : head.readUInt16BE(16)
  const usable = size - head.readUInt8(20)
  const last = head.readUInt32BE(28)
  if (last >= TOO_MANY_PAGES) throw new Error('the file has too many pages to be scrubbed')
  const page = Buffer.alloc(size)
  const zeros = Buffer.alloc(size)
  const read = (number: number) => readSync(file, page, 0, size, (number - 1) * size)

  const free = new Set<number>()
  /** Trunk pages of the free list, with the end of each list of leaves. */
  const trunks = new Map<number, number>()
  for (let trunk = head.readUInt32BE(32); trunk !== 0 && !trunks.has(trunk); trunk = page.readUInt32BE(0)) {
    read(trunk)
    const leaves = Math.min(page.readUInt32BE(4), usable / 4 - 2)
    trunks.set(trunk, 8 + 4 * leaves)
    for (let i = 0; i < leaves; i++) free.add(page.readUInt32BE(8 + 4 * i))
  }

  /** Overwrites a part of the page. Returns whether it changed. */
  function clear(from: number, to: number): boolean {
    if (from >= to || page.subarray(from, to).equals(zeros.subarray(0, to - from))) return false
    page.fill(0, from, to)
    return true
  }

  function clearUnused(number: number): boolean {
    if (free.has(number)) return clear(0, size)
    const endOfTrunk = trunks.get(number)
    if (endOfTrunk !== undefined) return clear(endOfTrunk, size)
    const header = HEADERS.get(page[0])
    if (header === undefined) return false
    const pointers = header + 2 * page.readUInt16BE(3)
    const cells = page.readUInt16BE(5) || 65536
    let isChanged = cells <= usable && clear(pointers, cells)
    for (let block = page.readUInt16BE(1); block >= pointers && block + 4 <= usable; ) {
      const end = Math.min(block + page.readUInt16BE(block + 2), usable)
      isChanged = clear(block + 4, end) || isChanged
      const next = page.readUInt16BE(block)
      if (next <= block) break
      block = next
    }
    return isChanged
  }

  const end = Math.min(last, first + count - 1)
  for (let number = first; number <= end; number++) {
    if (number === LOCK_BYTE / size + 1) continue
    read(number)
    if (clearUnused(number)) writeSync(file, page, 0, size, (number - 1) * size)
  }
  // The bytes must be gone from the disk before success is reported.
  fsyncSync(file)
  return end === last ? 0 : end + 1
}

/** Merges segments of a full text index. Returns whether it changed. Row 10 of its data is its structure. */
export function mergeIndex(db: Sqlite, index: string, pages: number): boolean {
  const structure = selectColumn<[], Uint8Array>(db, `SELECT block FROM ${index}_data WHERE id = 10`)
  const read = () => bufferOf(structure.get() ?? new Uint8Array())
  db.exec('BEGIN IMMEDIATE')
  const before = read()
  db.prepare(`INSERT INTO ${index} (${index}, rank) VALUES ('merge', ?)`).run(pages)
  const isChanged = !read().equals(before)
  db.exec('COMMIT')
  return isChanged
}

/** Moves the WAL into the file and empties it. Returns false when a reader blocks it. */
export function emptyWal(db: Sqlite): boolean {
  db.exec('PRAGMA busy_timeout = 0')
  try {
    return selectColumn<[], number>(db, 'PRAGMA wal_checkpoint(TRUNCATE)').get() === 0
  } finally {
    db.exec(`PRAGMA busy_timeout = ${LOCK_WAIT_MS}`)
  }
}
