import t from 'tap'
import { cleanFileName, endingOf } from '../../../src/storage/attachments/file-name.ts'

t.test('directories are removed from a name, with / and with \\', async (t) => {
  for (const given of [
    'a.txt',
    '/a.txt',
    '../a.txt',
    'x/../a.txt',
    'C:\\x\\a.txt',
    '\\\\host\\a.txt',
    'x/y\\a.txt',
  ]) {
    t.equal(cleanFileName(given), 'a.txt', given)
  }
})

t.test('invisible characters and direction marks are removed from a name', async (t) => {
  t.equal(cleanFileName('a\u0000\u0007\u001b\u007f\u0085b.txt'), 'ab.txt')
  t.equal(cleanFileName('\u202egpj\u2066.\u200fexe'), 'gpj.exe')
  t.equal(cleanFileName('a\r\nX-Evil: 1.txt'), 'aX-Evil: 1.txt')
  t.equal(cleanFileName('a\u2028\ufeff\ud800.txt'), 'a.txt')
  t.equal(cleanFileName('  a b.txt '), 'a b.txt')
  t.equal(cleanFileName('👩‍💻 é.txt'), '👩‍💻 é.txt', 'joiners in emoji and accents stay')
})

t.test('a name without visible characters gives undefined', async (t) => {
  for (const given of ['', ' ', '.', '..', '...', '/', 'a/', 'a\\..', '\u202e', '\u0000/\u0000']) {
    t.equal(cleanFileName(given), undefined, JSON.stringify(given))
  }
  t.equal(cleanFileName('.bashrc'), '.bashrc')
})

t.test('a long name keeps its ending and has at most 255 characters', async (t) => {
  t.equal(cleanFileName(`${'a'.repeat(300)}.tar.gz`), `${'a'.repeat(252)}.gz`)
  t.equal(cleanFileName(`${'a'.repeat(300)}.${'b'.repeat(300)}`), 'a'.repeat(255))
  const pictures = cleanFileName(`${'💩'.repeat(300)}.txt`) ?? ''
  t.equal(pictures, `${'💩'.repeat(251)}.txt`, 'no character is cut in half')
  // If the time grew faster than the length, this would exceed the test's time limit.
  t.equal(cleanFileName(`${'/a'.repeat(2_000_000)}.txt`), 'a.txt')
  t.equal(cleanFileName('.'.repeat(4_000_000)), undefined)
})

t.test('the ending begins at the last dot', async (t) => {
  t.equal(endingOf('a.tar.GZ'), '.gz')
  t.equal(endingOf('a'), '')
  t.equal(endingOf('a.'), '.')
})
