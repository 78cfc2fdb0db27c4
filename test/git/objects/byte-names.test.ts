import t from 'tap'
import {
  bytesOfText,
  hasRawBytes,
  pathInUrl,
  textOfBytes,
  urlWithTexts,
} from '../../../src/git/objects/byte-names.ts'

const latin1 = (text: string) => Buffer.from(text, 'latin1')

/** Names that are UTF-8, and others. */
const NAMES = [
  Buffer.from('plain'),
  Buffer.from('ümlaut 標 😀 \ufffd \ue0a0'),
  latin1('caf\xe9'),
  latin1('\x80\xff'),
  latin1('\xc3'),
  latin1('\xe6\xa8'),
  latin1('\xf0\x9f\x98'),
  latin1('\xed\xa0\x80'),
  latin1('\xc0\xaf'),
  latin1('a\xe9\xc3\xa9b'),
  Buffer.from('a\u{10fee9}b'),
  latin1('\xf4\x8f\xbb\xa9\xe9'),
  Buffer.from('\u{10fe80}'),
  Buffer.from('ü \u{10fe80}/\u{10feff}ü'),
]
for (let i = 0; i < 256; i++) NAMES.push(Buffer.from([0x61, i, 0x62]))

t.test('each name has its own text, which converts back to its bytes', async (t) => {
  const texts = NAMES.map((name) => textOfBytes(name))
  t.equal(new Set(texts).size, NAMES.length)
  for (const [i, text] of texts.entries()) {
    t.strictSame(bytesOfText(text), NAMES[i], text)
    t.equal(Buffer.from(text).toString(), text, 'it is well-formed')
  }
  t.equal(textOfBytes(latin1('caf\xe9')), 'caf\u{10fee9}')
  t.strictSame([hasRawBytes('ü'), hasRawBytes('caf\u{10fee9}')], [false, true])
})

t.test('URLs carry the bytes of names, and only those of files are parsed so', async (t) => {
  t.equal(
    pathInUrl(textOfBytes(latin1('d\xff/caf\xe9 \x80 \xbf \xc0.txt'))),
    'd%FF/caf%E9%20%80%20%BF%20%C0.txt',
  )
  t.equal(pathInUrl('ü/a#b'), '%C3%BC/a%23b')
  const read = (url: string) => decodeURIComponent(urlWithTexts(url))
  for (const place of [
    'repos/a/b/contents',
    'repos/a/b/raw',
    'repos/a/b/git/trees',
    'base/api/v1/repos/a/b/media',
  ]) {
    t.equal(read(`/${place}/caf%E9%2Fx%25`), `/${place}/caf\u{10fee9}/x%`, place)
  }
  t.equal(read('/a/b/raw/branch/main/%e9'), '/a/b/raw/branch/main/\u{10fee9}')
  t.equal(
    read('/api/v1/repos/a/b/pulls/1/files?skip-to=%E9'),
    '/api/v1/repos/a/b/pulls/1/files?skip-to=\u{10fee9}',
  )
  for (const url of [
    '/api/v1/repos/a/b/contents/%C3%A9',
    '/api/v1/repos/%E9/b',
    '/api/v1/repos/a/b/labels/%F0',
    '/%E9',
  ]) {
    t.equal(urlWithTexts(url), url)
  }
})

t.test(
  'file names that contain U+10FE80 itself are addressable: by their URL, and by their path in an answer',
  async (t) => {
    const read = (url: string) => decodeURIComponent(urlWithTexts(url))
    const place = '/repos/a/b/contents/'
    for (const name of NAMES) {
      const text = textOfBytes(name)
      const path = text.split('/').map(encodeURIComponent).join('/')
      t.equal(read(place + pathInUrl(text)), place + text, `by the URL of ${text}`)
      t.equal(read(place + path), place + text, `by the path ${text}`)
    }
    t.equal(
      pathInUrl(textOfBytes(Buffer.from('a\u{10fe80}'))),
      `a${'%F4%8F%BB%B4%F4%8F%BA%8F%F4%8F%BA%BA%F4%8F%BA%80'}`,
    )
  },
)
