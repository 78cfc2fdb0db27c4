import t from 'tap'
import { cleanFileName, endingOf } from '../../src/attachments/file-name.ts'

t.test('a name has no directories, whichever way they are written', async (t) => {
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

t.test('a name has nothing that can not be seen or that turns the rest around', async (t) => {
  t.equal(cleanFileName('a\u0000\u0007\u001b\u007f\u0085b.txt'), 'ab.txt')
  t.equal(cleanFileName('\u202egpj\u2066.\u200fexe'), 'gpj.exe')
  t.equal(cleanFileName('a\r\nX-Evil: 1.txt'), 'aX-Evil: 1.txt')
  t.equal(cleanFileName('a\u2028\ufeff\ud800.txt'), 'a.txt')
  t.equal(cleanFileName('  a b.txt '), 'a b.txt')
  t.equal(cleanFileName('👩‍💻 é.txt'), '👩‍💻 é.txt', 'what belongs to a language or a picture stays')
})

t.test('a name of nothing is none', async (t) => {
  for (const given of ['', ' ', '.', '..', '...', '/', 'a/', 'a\\..', '\u202e', '\u0000/\u0000']) {
    t.equal(cleanFileName(given), undefined, JSON.stringify(given))
  }
  t.equal(cleanFileName('.bashrc'), '.bashrc')
})

t.test('a long name keeps its ending and has at most 255 characters', async (t) => {
  t.equal(cleanFileName(`${'a'.repeat(300)}.tar.gz`), `${'a'.repeat(252)}.gz`)
  t.equal(cleanFileName(`${'a'.repeat(300)}.${'b'.repeat(300)}`), 'a'.repeat(255))
  const pictures = cleanFileName(`${'💩'.repeat(300)}.txt`) ?? ''
  t.equal(pictures, `${'💩'.repeat(251)}.txt`, 'none is cut in half')
  // What takes longer than in proportion would not end before the test's own time limit.
  t.equal(cleanFileName(`${'/a'.repeat(2_000_000)}.txt`), 'a.txt')
  t.equal(cleanFileName('.'.repeat(4_000_000)), undefined)
})

t.test('the ending is what follows the last dot', async (t) => {
  t.equal(endingOf('a.tar.GZ'), '.gz')
  t.equal(endingOf('a'), '')
  t.equal(endingOf('a.'), '.')
})
