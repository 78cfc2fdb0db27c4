/**
 * Overwrites what no row of a SQLite file uses. `secure_delete` overwrites rows that are deleted; but when rows move to
 * another page, the page that they leave keeps their bytes, and so do pages that were freed before `secure_delete`.
 *
 * A page of a table or an index is a header, an array of pointers, a gap, and the cells, between which are free blocks
 * (https://sqlite.org/fileformat2.html). The driver's SQLite gives nobody the bytes of a page, so they are read and
 * written in the file. That is safe while the WAL is empty and nobody else may write: no page is anywhere else then. The
 * bytes that change say nothing to whoever reads the page, so a crash in the middle leaves a sound page, too.
 */
import { fsyncSync, openSync, readSync, statSync, writeSync } from 'node:fs'
import { bufferOf, connect, LOCK_WAIT_MS, type Sqlite, selectColumn } from './sqlite.ts'

/** By type of a page: the length of its header. */
const HEADERS: ReadonlyMap<number | undefined, number> = new Map([
  [2, 12],
  [5, 12],
  [10, 8],
  [13, 8],
])
/** The first number that could make an overflow page look like another one. */
const TOO_MANY_PAGES = 0x02000000
const LOCK_BYTE = 0x40000000

/**
 * The files that were opened here, by device and number. They stay open: when a process closes a file, the system takes
 * away all locks that it has on it, and SQLite's connections rely on theirs.
 */
const opened = new Map<string, number>()

/**
 * Scrubs at most `count` pages from page `first` on, which is 2 or more: the first one has a longer header. Returns the page to go on with; 0 at the end; undefined when a reader
 * or a writer is in the way. The caller's connections must not be in a transaction.
 */
export function scrubPages(file: string, first: number, count: number): number | undefined {
  const db = connect(file)
  try {
    if (!emptyWal(db)) return undefined
    db.exec('BEGIN IMMEDIATE')
    // Somebody may have written in between.
    if (statSync(`${file}-wal`).size > 0) return undefined
    const next = scrub(openOnce(file), first, count)
    // A change, so that all connections forget the pages that they remember: they would write them back as they were.
    const version = selectColumn<[], number>(db, 'PRAGMA user_version').get() ?? 0
    db.exec(`PRAGMA user_version = ${version}; COMMIT`)
    return next
  } finally {
    db.close()
  }
}

function openOnce(file: string): number {
  // A rebuilt or restored file may have taken the place of another one.
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
  /** Lists of free pages, and where each ends. */
  const trunks = new Map<number, number>()
  for (let trunk = head.readUInt32BE(32); trunk !== 0 && !trunks.has(trunk); trunk = page.readUInt32BE(0)) {
    read(trunk)
    const leaves = Math.min(page.readUInt32BE(4), usable / 4 - 2)
    trunks.set(trunk, 8 + 4 * leaves)
    for (let i = 0; i < leaves; i++) free.add(page.readUInt32BE(8 + 4 * i))
  }

  /** Overwrites a part of the page. Returns whether that has changed it. */
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
  // Before anybody is told: the disk must not have it any more, either.
  fsyncSync(file)
  return end === last ? 0 : end + 1
}

/** Merges parts of a full text index. Returns whether that has changed it. Its structure is in row 10 of its data. */
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

/** Moves the WAL into the file and empties it. Returns false when a reader keeps it from that. */
export function emptyWal(db: Sqlite): boolean {
  db.exec('PRAGMA busy_timeout = 0')
  try {
    return selectColumn<[], number>(db, 'PRAGMA wal_checkpoint(TRUNCATE)').get() === 0
  } finally {
    db.exec(`PRAGMA busy_timeout = ${LOCK_WAIT_MS}`)
  }
}
