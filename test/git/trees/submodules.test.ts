import t from 'tap'
import { urlsIn } from '../../../src/git/trees/submodules.ts'

t.test('each section of .gitmodules names a path and where it comes from', async (t) => {
  const text = `[submodule "one"]
\tpath = lib/one
\turl = https://example.org/one.git
  [submodule "two"]
  url="https://example.org/two"
\tbranch = main
\tpath  =  "lib/two"\r
[submodule "none"]
\tpath = lib/three
[submodule "nowhere"]
\turl = https://example.org/nowhere
\turls = x
[submodule "twice"]
\tpath = a
\tpath = b
\turl = first
\turl = second
`
  t.strictSame(Object.fromEntries(urlsIn(text)), {
    'lib/one': 'https://example.org/one.git',
    'lib/two': 'https://example.org/two',
    a: 'first',
  })
  t.equal(urlsIn('path=a\nurl="').size, 0)
})

// A search from each space would take minutes in all, and block the event loop.
t.test('a .gitmodules of nothing but spaces does not block the loop', async (t) => {
  for (const space of [' ', '\n', '\t', '\r', '\n ']) {
    const filler = space.repeat(200_000)
    t.strictSame(Object.fromEntries(urlsIn(`${filler}path=a${filler}\n${filler}url=b${filler}`)), { a: 'b' })
    t.equal(urlsIn(`path=a${filler}b\nurl=`).size, 0)
  }
})
