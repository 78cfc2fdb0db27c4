import t from 'tap'
import { baseFor, basePath } from '../../src/http/base-path.ts'

t.test('a client that uses PUBLIC_URL is sent to whole addresses, and others to paths', async (t) => {
  t.equal(baseFor('git.example.org', 'https://git.example.org'), 'https://git.example.org')
  t.equal(baseFor('Git.Example.org:8443', 'https://git.example.org:8443/'), 'https://git.example.org:8443')
  t.equal(baseFor('git.example.org', 'https://git.example.org/code/'), 'https://git.example.org/code')
  t.equal(baseFor('mergelog:3000', 'https://git.example.org/code'), '/code')
  t.equal(baseFor('mergelog:3000', 'https://git.example.org'), '')
  t.equal(baseFor('127.0.0.1:3000', undefined), '')
  t.equal(basePath('http://127.0.0.1:3000'), '')
})
