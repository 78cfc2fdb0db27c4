/** The cache of wire forms, by the values of their documents. */
import { test } from 'tap'
import { cachedWire } from '../../src/api/cached-wires.ts'
import { jsonOf } from '../../src/http/answers/cached-json.ts'

test('the wire form of a document is built again only for other values', async (t) => {
  let made = 0
  const form = cachedWire((document: { name: string }, access: string) => {
    made += 1
    return { name: document.name, access }
  })
  const document = { name: 'app' }
  const first = form(document, 'read')
  t.equal(form(document, 'read'), first, 'the same one for the same values')
  t.equal(made, 1)
  t.same(form(document, 'write'), { name: 'app', access: 'write' }, 'another access has another form')
  t.same(form({ name: 'app' }, 'write'), { name: 'app', access: 'write' }, 'a later version of a document')
  t.equal(made, 3)
  t.same(
    form(document, 'read'),
    { name: 'app', access: 'read' },
    'a reader does not get the form of a writer',
  )
  t.equal(jsonOf([first, first]), '[{"name":"app","access":"read"},{"name":"app","access":"read"}]')
})
