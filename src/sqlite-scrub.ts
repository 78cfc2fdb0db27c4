/**
 * Overwrites what no row of a SQLite file uses. `secure_delete` overwrites rows that are deleted; but when rows move to
 * another page, the page that they leave keeps their bytes, and so do pages that were freed before `secure_delete`.
 *
 * The code of steps for the thread of `sqlite-thread.ts`. A page of a table or an index is a header, an array of
 * pointers, a gap, and the cells, between which are free blocks (https://sqlite.org/fileformat2.html). The table
 * `sqlite_dbpage` gives the pages, and writes them through the WAL, so a crash leaves all of a page or nothing.
 */
export const SCRUB = `
  /** By type of a page: the length of its header. */
  const HEADERS = new Map([[2, 12], [5, 12], [10, 8], [13, 8]])
  /** The first number that could make an overflow page look like another one. */
  const TOO_MANY_PAGES = 0x02000000
  const LOCK_BYTE = 0x40000000

  const bytesOf = (blob) => blob instanceof ArrayBuffer ? Buffer.from(blob) : Buffer.from(blob.buffer, blob.byteOffset, blob.byteLength)

  /** Scrubs at most \`count\` pages from \`first\` on. Returns the page to go on with; 0 at the end. */
  function scrub(db, first, count) {
    const [[last]] = db.prepare('PRAGMA page_count').raw().all()
    if (last >= TOO_MANY_PAGES) throw new Error('the file has too many pages to be scrubbed')
    const select = db.prepare('SELECT data FROM sqlite_dbpage WHERE pgno = ?').raw()
    const update = db.prepare('UPDATE sqlite_dbpage SET data = ? WHERE pgno = ?')
    const read = (number) => bytesOf(select.get(number)[0])
    const head = read(1)
    const size = head.readUInt16BE(16) === 1 ? 65536 : head.readUInt16BE(16)
    const usable = size - head[20]
    const zeros = Buffer.alloc(size)
    const free = new Set()
    const trunks = new Map()
    for (let trunk = head.readUInt32BE(32); trunk !== 0 && !trunks.has(trunk); ) {
      const page = read(trunk)
      const leaves = Math.min(page.readUInt32BE(4), usable / 4 - 2)
      trunks.set(trunk, 8 + 4 * leaves)
      for (let i = 0; i < leaves; i++) free.add(page.readUInt32BE(8 + 4 * i))
      trunk = page.readUInt32BE(0)
    }
    const end = Math.min(last, first + count - 1)
    for (let number = first; number <= end; number++) {
      if (number === LOCK_BYTE / size + 1) continue
      const page = read(number)
      let isChanged = false
      const clear = (from, to) => {
        if (from >= to || page.subarray(from, to).equals(zeros.subarray(0, to - from))) return
        page.fill(0, from, to)
        isChanged = true
      }
      const at = number === 1 ? 100 : 0
      const header = HEADERS.get(page[at])
      if (free.has(number)) clear(0, size)
      else if (trunks.has(number)) clear(trunks.get(number), size)
      else if (header !== undefined) {
        const pointers = at + header + 2 * page.readUInt16BE(at + 3)
        const cells = page.readUInt16BE(at + 5) || 65536
        if (cells <= usable) clear(pointers, cells)
        for (let block = page.readUInt16BE(at + 1); block >= pointers && block + 4 <= usable; ) {
          clear(block + 4, Math.min(block + page.readUInt16BE(block + 2), usable))
          const next = page.readUInt16BE(block)
          if (next <= block) break
          block = next
        }
      }
      if (isChanged) update.run(page, number)
    }
    return end === last ? 0 : end + 1
  }

  /** Merges parts of a full text index. Returns 1 when that has changed it. Its structure is in row 10 of its data. */
  function merge(db, index, pages) {
    const structure = () => bytesOf(db.prepare('SELECT block FROM ' + index + '_data WHERE id = 10').raw().get()[0])
    const before = structure()
    db.prepare('INSERT INTO ' + index + ' (' + index + ", rank) VALUES ('merge', ?)").run(pages)
    return Number(!structure().equals(before))
  }

  /** Empties the WAL. Returns 1 when a reader keeps it from that. */
  function truncate(db, timeout) {
    db.exec('PRAGMA busy_timeout = 0')
    try {
      const [[busy]] = db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').raw().all()
      return busy
    } finally {
      db.exec('PRAGMA busy_timeout = ' + timeout)
    }
  }
`
