import { gzipSync } from 'node:zlib'
import t from 'tap'
import { HEAD_BYTES, isAllowed, servedAs, sniff } from '../../../src/storage/attachments/file-kind.ts'

const PNG = Buffer.from('89504e470d0a1a0a0000000d494844520000000100000001080600000', 'hex')
const bytes = (text: string) => Buffer.from(text, 'latin1')

t.test('the first bytes tell the kind of a file', async (t) => {
  const cases: [content: Buffer, kind: string | undefined][] = [
    [Buffer.alloc(0), undefined],
    [bytes('x'), undefined],
    [bytes('plain text\twith\r\nlines'), 'text/plain'],
    [Buffer.from('größe 💩'), 'text/plain'],
    [bytes('\xff\xfea\0b\0'), 'text/plain'],
    [bytes('{"json": true}'), 'text/plain'],
    [bytes('  <!DOCTYPE html><p>'), 'text/html'],
    [bytes('\xef\xbb\xbf<script>alert(1)</script>'), 'text/html'],
    [bytes('<svg onload="alert(1)">'), 'text/html'],
    [bytes('<?xml version="1.0"?><svg/>'), 'application/xml'],
    [bytes('%PDF-1.7\n'), 'application/pdf'],
    [gzipSync('x'), 'application/gzip'],
    [bytes(`PK\x03\x04${'\0'.repeat(100)}`), 'application/zip'],
    [bytes('\x00\x01\x02\x03 unknown'), 'application/octet-stream'],
    [PNG, 'image/png'],
  ]
  for (const [content, kind] of cases) t.equal(await sniff(content), kind, `${kind}`)
})

t.test('sniffing never fails, whatever the first bytes are', async (t) => {
  const starts = [
    '',
    'PK\x03\x04',
    '\x89PNG\r\n\x1a\n',
    'RIFF',
    '\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9',
    'II*\0',
    '\xff\xd8\xff',
    'OggS',
    'ID3',
    '\0\0\0\x20ftyp',
    '\x1aE\xdf\xa3',
    '<?xml ',
  ]
  let state = 1
  for (const start of starts) {
    for (let round = 0; round < 30; round++) {
      const noise = Buffer.from(
        Uint8Array.from({ length: HEAD_BYTES }, () => {
          state = (state * 1103515245 + 12345) & 0x7fffffff
          return round % 3 === 0 ? 0xff : round % 3 === 1 ? 0 : (state >> 16) & 0xff
        }),
      )
      noise.write(start, 0, 'latin1')
      const kind = await sniff(noise)
      if (typeof kind !== 'string') t.fail(`${JSON.stringify(start)} has no kind`)
    }
  }
  t.pass('all have a kind')
})

t.test('one matching ending or media type is enough', async (t) => {
  const cases: [allowed: string[], name: string, sniffed: string | undefined, yes: boolean][] = [
    [[], 'a.exe', 'application/x-msdownload', true],
    [['*/*'], 'a', undefined, true],
    [['.zip'], 'A.ZIP', 'text/plain', true],
    [['.tar.gz'], 'a.tar.gz', undefined, true],
    [['.zip'], 'azip', 'application/zip', false],
    [['.zip'], 'a.zip.exe', 'application/zip', false],
    [['image/*'], 'a.txt', 'image/png', true],
    [['image/*'], 'a.png', 'text/plain', false],
    [['image/*'], 'a.png', undefined, false],
    [['image/png', '.txt'], 'a', 'image/png', true],
    [['image/png'], 'a', 'image/pngx', false],
  ]
  for (const [allowed, name, sniffed, yes] of cases) {
    t.equal(isAllowed(allowed, name, sniffed), yes, `${name} (${sniffed}) among ${allowed}`)
  }
})

t.test(
  'a file that a browser could run is never served with its own type, and only pictures are shown inline',
  async (t) => {
    const cases: [name: string, sniffed: string | undefined, type: string, disposition: string][] = [
      ['a.png', 'image/png', 'image/png', 'inline'],
      ['a.html', 'image/gif', 'image/gif', 'inline'],
      ['a.html', 'text/html', 'text/plain; charset=utf-8', 'attachment'],
      ['a.png', 'text/html', 'text/plain; charset=utf-8', 'attachment'],
      ['a.svg', 'application/xml', 'text/plain; charset=utf-8', 'attachment'],
      ['a.svg', 'image/svg+xml', 'text/plain; charset=utf-8', 'attachment'],
      ['a.js', 'text/plain', 'text/plain; charset=utf-8', 'attachment'],
      ['a.html', 'application/octet-stream', 'application/octet-stream', 'attachment'],
      ['a.svg', undefined, 'application/octet-stream', 'attachment'],
      ['a.xhtml', 'application/octet-stream', 'application/octet-stream', 'attachment'],
      ['a.js', undefined, 'application/octet-stream', 'attachment'],
      ['a.swf', 'application/x-shockwave-flash', 'application/octet-stream', 'attachment'],
      ['a.pdf', 'application/pdf', 'application/pdf', 'attachment'],
      ['a.mp4', 'video/mp4', 'video/mp4', 'attachment'],
      ['a.doc', 'application/octet-stream', 'application/msword', 'attachment'],
      ['a', 'application/octet-stream', 'application/octet-stream', 'attachment'],
    ]
    for (const [name, sniffed, type, disposition] of cases) {
      t.same(servedAs(name, sniffed), { type, disposition }, `${name} ${sniffed}`)
    }
  },
)
